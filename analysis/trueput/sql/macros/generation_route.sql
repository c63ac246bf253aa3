-- Whether an HTTP route asks for generated tokens.
CREATE OR REPLACE MACRO generation_route(route) AS
  regexp_matches(route, '/(v1/)?(chat/)?completions|/v1/responses|/generate|/v1/messages|/invocations');
