/**
 * The meaning of a provider's own finish reason, where the clients have no word for it or where it is more precise than
 * theirs.
 *
 * - `window`: the model's window is full (Anthropic and Bedrock `model_context_window_exceeded`, Mistral
 *   `model_length`, Reka `context`, LM Studio `contextLengthReached`).
 * - `length`: the output limit cut the answer.
 * - `filter`: the provider refused the content.
 * - `error`: the provider gave up.
 */
export type Meaning = "window" | "length" | "filter" | "error"

export const meaningOf = (raw: string | undefined): Meaning | undefined => {
  if (raw === undefined) return undefined
  for (const [meaning, words] of meanings) if (words.test(raw)) return meaning
  return undefined
}

const meanings: ReadonlyArray<readonly [Meaning, RegExp]> = [
  ["window", /context|^(?:model_length|error_limit)$|window/i],
  [
    "length",
    /^(?:length|limit|token_?limit|output_?limit|max_?(?:(?:output|completion|new|predicted)_?)?(?:tokens?|length)(?:_?reached)?)$/i
  ],
  [
    "filter",
    /^(?:content_?filter(?:ed)?|refusal|refused|safety|blocked|blocklist|recitation|language|prohibited_content|spii|guardrail_intervened|sensitive|error_toxic|image_(?:safety|prohibited_content|recitation))$/i
  ],
  [
    "error",
    /^(?:error|abort(?:ed)?|cancell?ed|time_?out|failed|malformed_(?:function_call|response)|unexpected_tool_call|too_many_tool_calls|insufficient_system_resource|network_error)$/i
  ]
]
