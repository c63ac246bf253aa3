"""trueput: trace analysis and regression gate for LLM serving."""
