"""vLLM V1's scheduling replayed under the counts that its iterations printed.

`search` holds the best stories and asks the others: `printed` is what the engine printed;
`scheduler` takes a story through one iteration, `lost_lines` through those without a line and
`coasting` through many that are alike. A request comes by `arrivals`, goes by `departures`, gets
its tokens by `division` and moves by `progress`; its KV blocks are in the `block_pool`, over a
`free_queue`. What speaks against a story is priced in `nats`.
"""
