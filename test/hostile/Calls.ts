/** Helpers of the hostile tests: real clients at a raw server, and the view of their consumer. */
import { Duration, Effect, Layer, Redacted, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import type { Response } from "effect/ai"
import { Failover, KeySource, Outlast, ProviderFailure, RecoveryPolicy } from "@outlast/agent"
import type { CallFailure, ProviderModel } from "@outlast/agent"
import { Anthropic, Google, OpenAi, OpenAiCompatible, toAiSdk } from "@outlast/providers"
import { Backoff, ResilienceEvents, Warnings } from "@outlast/resilience"

const keys = [KeySource.value("KEY", Redacted.make("sk-test-0123456789abcdef"))]

/** One model of each client, at the raw server. */
export const vendors = {
  anthropic: (url: string) => Anthropic.model("claude-sonnet-4-5", { keys, baseUrl: `${url}/v1` }),
  chat: (url: string) => OpenAi.chatModel("gpt-4o", { keys, baseUrl: `${url}/v1` }),
  responses: (url: string) => OpenAi.model("gpt-4o", { keys, baseUrl: `${url}/v1` }),
  google: (url: string) => Google.model("gemini-2.5-flash", { keys, baseUrl: `${url}/v1beta` }),
  compatible: (url: string) =>
    OpenAiCompatible.model({ name: "local", model: "m", keys, baseUrl: `${url}/v1` })
} as const

/** The same models, whose requests `fetch` sends. */
export const through: {
  readonly [V in keyof typeof vendors]: (url: string, send: typeof fetch) => ProviderModel.TargetSpec
} = {
  anthropic: (url, fetch) => Anthropic.model("claude-sonnet-4-5", { keys, fetch, baseUrl: `${url}/v1` }),
  chat: (url, fetch) => OpenAi.chatModel("gpt-4o", { keys, fetch, baseUrl: `${url}/v1` }),
  responses: (url, fetch) => OpenAi.model("gpt-4o", { keys, fetch, baseUrl: `${url}/v1` }),
  google: (url, fetch) => Google.model("gemini-2.5-flash", { keys, fetch, baseUrl: `${url}/v1beta` }),
  compatible: (url, fetch) =>
    OpenAiCompatible.model({ name: "local", model: "m", keys, fetch, baseUrl: `${url}/v1` })
}

export const millis = Duration.millis

/** Milliseconds within which an answer ends if it does not wait for a limit. */
export const prompt = 10_000

/** Limits far above the time of a test on a busy machine, so a test that waits for a limit exceeds `prompt`. */
export const quick: RecoveryPolicy.RecoveryPolicy = {
  ...RecoveryPolicy.interactive,
  // Each row keeps its name.
  rows: Object.fromEntries(
    Object.entries<RecoveryPolicy.Row>(RecoveryPolicy.interactive.rows).map(([name, row]) => [
      name,
      { ...row, backoff: Backoff.constant("5 millis") }
    ])
  ) as RecoveryPolicy.RecoveryPolicy["rows"],
  limits: {
    ...RecoveryPolicy.interactive.limits,
    firstToken: Duration.seconds(15),
    firstTokenReasoning: Duration.seconds(15),
    idle: Duration.seconds(15),
    idleReasoning: Duration.seconds(15)
  }
}

export interface Seen {
  readonly text: string
  /** The types of the parts of the answer, without consecutive duplicates. */
  readonly types: ReadonlyArray<string>
  readonly finish: string | undefined
  readonly blocks: number
  readonly failure: CallFailure.CallFailure | undefined
  /** The tags of all events. */
  readonly events: ReadonlyArray<string>
  readonly millis: number
}

interface Shown {
  readonly type: string
  readonly delta?: string
}

const summary = (parts: ReadonlyArray<Shown>): Pick<Seen, "text" | "types" | "blocks"> => ({
  text: parts.map((part) => (part.type === "text-delta" ? part.delta : "")).join(""),
  types: parts
    .map(({ type }) => type)
    .filter((type, i, all) => type !== all[i - 1] && type !== "response-metadata" && type !== "stream-start"),
  blocks: parts.filter(({ type }) => type === "text-start").length
})

type Chain = readonly [ProviderModel.TargetSpec, ...Array<ProviderModel.TargetSpec>]

/** A stream through `Outlast.streamText`; `surface` chooses another way to it. */
export const stream = (
  chain: Chain,
  {
    options = {},
    policy = quick,
    onPart = () => Effect.void,
    surface = "outlast"
  }: {
    readonly options?: Partial<LanguageModel.GenerateTextOptions<{}>>
    readonly policy?: RecoveryPolicy.RecoveryPolicy
    readonly onPart?: (part: Shown) => Effect.Effect<void>
    readonly surface?: "outlast" | "effect"
  } = {}
): Effect.Effect<Seen> =>
  Effect.suspend(() => {
    const events: Array<string> = []
    const parts: Array<Response.AnyPart | Shown> = []
    const begun = performance.now()
    const asked = { prompt: "hello", ...options, toolkit: undefined }
    const answer: Stream.Stream<Shown, unknown, LanguageModel.LanguageModel> =
      surface === "outlast" ? Outlast.streamText(asked) : LanguageModel.streamText(asked)
    return answer.pipe(
      Stream.runForEach((part) => {
        parts.push(part)
        return onPart(part)
      }),
      Effect.as(undefined),
      Effect.catch((error) => Effect.succeed(error)),
      Effect.map((failure): Seen => {
        const finish = parts.find((part): part is Response.FinishPart => part.type === "finish")
        return {
          ...summary(parts),
          finish: finish?.reason,
          // `Outlast.streamText` fails with nothing else.
          failure: failure as CallFailure.CallFailure | undefined,
          events,
          millis: performance.now() - begun
        }
      }),
      Effect.provide(
        Failover.layer(chain, { policy }).pipe(
          Layer.provideMerge(
            ResilienceEvents.layerHandler((event) => Effect.sync(() => void events.push(event._tag)))
          ),
          Layer.provideMerge(Warnings.layerOff)
        )
      ),
      Effect.orDie
    )
  })

/** The same stream as a program of the AI SDK reads it. */
export const aiSdkStream = (
  chain: Chain
): Effect.Effect<Pick<Seen, "text" | "types" | "blocks" | "finish" | "millis">> =>
  Effect.promise(async () => {
    await using model = toAiSdk(
      Failover.layer(chain, { policy: quick }).pipe(Layer.provideMerge(Warnings.layerOff))
    )
    const begun = performance.now()
    const { stream } = await model.doStream({
      prompt: [{ role: "user", content: [{ type: "text", text: "hello" }] }]
    })
    const parts: Array<Shown & { readonly finishReason?: { readonly unified: string } }> = []
    for await (const part of stream) parts.push(part)
    const reason = parts.find((part) => part.type === "finish")?.finishReason?.unified
    return {
      ...summary(parts),
      // The AI SDK has no value for an unknown reason.
      finish: reason === "other" ? "unknown" : reason,
      millis: performance.now() - begun
    }
  })

/** The failure, or that of the first target if all are out. */
const failureOf = ({ failure }: Seen): ProviderFailure.ProviderFailure | undefined =>
  failure instanceof ProviderFailure.ProviderFailure ? failure : failure?.targets[0]?.failure

export const reasonOf = (seen: Seen): string | undefined => failureOf(seen)?.reason._tag
export const ruleOf = (seen: Seen): string => failureOf(seen)?.evidence.rule ?? ""
