/** What the vendor of `gateway.ts` answers: a stream of 123 events, and a whole answer of 2.7 KB. */
const id = "chatcmpl-9f86d081884c7d659a2feaa0c55ad015"

const chunk = (delta: object, finish_reason: string | null = null): string =>
  JSON.stringify({
    id,
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "m-2026-01-01",
    service_tier: "default",
    system_fingerprint: "fp_44709d6fcb",
    choices: [{ index: 0, delta, logprobs: null, finish_reason }]
  })

const words = Array.from({ length: 119 }, (_, i) => ` word${i}`)
const usage = { prompt_tokens: 12, completion_tokens: words.length, total_tokens: 12 + words.length }

export const events: ReadonlyArray<string> = [
  chunk({ role: "assistant", content: "", refusal: null }),
  ...words.map((content) => chunk({ content })),
  chunk({}, "stop"),
  JSON.stringify({
    id,
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "m-2026-01-01",
    choices: [],
    usage
  }),
  "[DONE]"
].map((data) => `data: ${data}\n\n`)

/** Events after which streams of the model `held` say no more, and stay open. */
export const heldAfter = 60

/** How the streams of a model come: so many events at once, again and again. */
export const models = {
  m: { together: 1, events },
  fast: { together: 8, events },
  short: { together: 1, events: [...events.slice(0, 6), ...events.slice(-3)] },
  held: { together: 1, events: events.slice(0, heldAfter) }
} as const

export type Model = keyof typeof models

export const whole: Buffer = Buffer.from(
  JSON.stringify({
    id,
    object: "chat.completion",
    created: 1_700_000_000,
    model: "m-2026-01-01",
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: "The plan is to read the files. ".repeat(75),
          refusal: null,
          annotations: []
        },
        logprobs: null,
        finish_reason: "stop"
      }
    ],
    usage,
    service_tier: "default",
    system_fingerprint: "fp_44709d6fcb"
  })
)
