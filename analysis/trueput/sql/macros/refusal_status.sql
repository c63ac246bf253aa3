-- Whether an HTTP status refuses a request before any work: bad request, payload too large,
-- unprocessable, too many requests, or admission control (503).
CREATE OR REPLACE MACRO refusal_status(status) AS status IN (400, 413, 422, 429, 503);
