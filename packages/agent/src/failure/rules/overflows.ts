/**
 * Rules on the words of size: a prompt that is too long for the model, or a body that is too large for the
 * endpoint.
 */
import * as Rule from "./Rule.ts"
import type { ErrorFacts } from "../facts/ErrorFacts.ts"
import { badRequestOrLimit, contextOverflow } from "./reasons.ts"

/** A server that calls it a limit per time means it, whatever its sentence advises. */
const isNoRate = ({ codes, said, status }: ErrorFacts): boolean =>
  (said ?? status) !== 429 && !codes.some((code) => /^rate_?limit/i.test(code))

export const overflows: ReadonlyArray<Rule.Rule> = [
  Rule.text({
    id: "overflow/output",
    why: "The requested length of the answer exceeds the model's maximum, which the text often names.",
    phrases: [
      "maximum allowed number of output tokens",
      "(max_tokens|max_completion_tokens|max_output_tokens|maxoutputtokens|max_new_tokens)…(too large|must be|should be|at most|less than|exceeds|exceed|greater|range|larger|supports at most|not supported)",
      "maximum tokens…(requested|value)…exceed*",
      "(max_tokens|max_completion_tokens|max_output_tokens)…above maximum value",
      "supports at most…(completion|output) tokens"
    ],
    unless: [
      "context (length|window|limit|size)",
      "tokens + …max_new_tokens…must be",
      "(per minute|per day|tpm)"
    ],
    when: isNoRate,
    reason: badRequestOrLimit
  }),
  Rule.text({
    id: "overflow/window",
    why: "The input, or input and output together, exceeds the model's window.",
    phrases: [
      "(prompt|input|request|conversation|context|messages|message|query) (tokens |is |are |was |length is |size is |)(too|over) (long|large|big)",
      "too (long|large) (for|to send)…(model|context|window|capi)",
      "maximum (context|prompt|input) length",
      "(tokens|prompt_tokens|length|prompt|input|sequence|seq_len|input_len)…(max_seq_len|max_model_len|max_input_len|max_input_length|max_sequence_length|max_position_embeddings|max_num_tokens|max_input_tokens|max_total_tokens|n_ctx)",
      "context shift is disabled",
      "(exceed|exceeds|exceeded|exceeding|over|above|larger than|longer than|greater than) (the |)(max_seq_len|max_model_len|max_input_len|max_input_length|max_sequence_length|max_position_embeddings|max_num_tokens|max_input_tokens|max_total_tokens|n_ctx)",
      "too many total text bytes",
      "context length is only",
      "size limit exceeded by…tokens",
      "must have less than…tokens",
      "tokens + …max_new_tokens…must be",
      "(context|prompt|input|sequence) (window|length|size|limit)…(exceed|exceeds|exceeded|full|overflow|overflows|too large|too small|too long)",
      "(exceed|exceeds|exceeded|exceeding|greater than|larger than|longer than|over)…(context|prompt|input|token|model's|maximum|max)( |_)(window|length|size|limit|limits|token count|sequence length|input length|prompt length)",
      "(exceed|exceeds|exceeded|exceeding|beyond|outside) (the |)(model's |available |maximum |)context",
      "token count…exceeds",
      "(input|prompt|total)…(tokens|token count)…(exceed|exceeds|exceeded|greater than|larger than|longer than)",
      "(tokens|token)…exceed…(limit|maximum|window)",
      "tokens > …maximum",
      "too many (input |prompt |total |)tokens in",
      "(reduce|shorten) (the |your |)(length of the |)(messages|prompt|input|conversation|context)",
      "(reduce|shorten)…(length|size) of…(messages|prompt|input|completion)",
      "context the overflows",
      "context (overflow|overflows|overflowed|full)",
      "(cannot|can't|does not|doesn't|won't) fit…(context|window)",
      "range of input length",
      "expected maxlength: …actual",
      "decrease input length",
      "(smaller|shorter) (prompt|input|context)",
      "ran out of room in the model's context*",
      "(input|prompt)…(longer|larger|greater) than the (model|maximum|context|allowed)",
      "trim*…(messages|context|history)…(fit|limit)"
    ],
    unless: [
      "(per minute|per min|per day|tpm|rpm)",
      "maximum allowed number of output tokens",
      "completion tokens",
      "(image|images|dimensions|file) (size|dimensions|is too large|exceeds|exceed)",
      "maximum length (40|64)",
      "string too long",
      "too large, maximum output"
    ],
    when: isNoRate,
    reason: contextOverflow
  }),
  Rule.text({
    id: "overflow/body",
    why: "The request has more bytes than the endpoint accepts.",
    phrases: [
      "(payload|entity|request|body|request body|request entity|content) (is |)too (large|big)",
      "(request|payload|body|content)( size| length|) (exceeds|exceeded)…(size|bytes|limit|mb)",
      "maximum (request|payload|body) size",
      "(payload|body|content) size exceed*",
      "(received|sent) message larger than max"
    ],
    unless: ["(per minute|per min|per day|tpm|rpm)"],
    when: isNoRate,
    reason: contextOverflow
  })
]
