-- One row per run: whether its engine's settings say that no prefix cache was used.
-- Null rule: never NULL; settings that do not say leave it false.
SELECT run_id,
  coalesce(CASE WHEN json_valid(config_json)
    THEN json_extract_string(config_json, '$.enable_prefix_caching') END = 'false', false) AS cache_is_off
FROM raw.runs
