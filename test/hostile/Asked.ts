/** One question to a chain of real clients at a raw server, in each form that a program can use. */
import { Effect, Layer, Redacted, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import type { Response } from "effect/ai"
import { Failover, KeySource, Outlast, RecoveryPolicy } from "@outlast/agent"
import type { CallFailure, ModelInfo, ProviderModel } from "@outlast/agent"
import { OutputLimit } from "@outlast/agent/failover"
import { Anthropic, Google, OpenAi, OpenAiCompatible } from "@outlast/providers"
import { Backoff, ResilienceEvents, Warnings } from "@outlast/resilience"

/**
 * - `request`: a complete answer, by a plain request
 * - `folded`: a complete answer, by a stream if the client allows it
 * - `stream`: a stream
 */
export type Way = "request" | "folded" | "stream"
export const ways: ReadonlyArray<Way> = ["request", "folded", "stream"]

export const keys = [KeySource.value("KEY", Redacted.make("sk-test-0123456789abcdef"))]

type Info = Pick<ModelInfo.ModelInfo, "wholeAnswers">

/** One model of each client, under an unlisted name, so that no limit of the catalogue applies. */
export const vendors = {
  anthropic:
    (url: string, model = "claude-x") =>
    (info: Info) =>
      Anthropic.model(model, { keys, info, baseUrl: `${url}/v1` }),
  chat:
    (url: string, model = "gpt-x") =>
    (info: Info) =>
      OpenAi.chatModel(model, { keys, info, baseUrl: `${url}/v1` }),
  responses:
    (url: string, model = "gpt-x") =>
    (info: Info) =>
      OpenAi.model(model, { keys, info, baseUrl: `${url}/v1` }),
  google:
    (url: string, model = "gemini-x") =>
    (info: Info) =>
      Google.model(model, { keys, info, baseUrl: `${url}/v1beta` }),
  compatible:
    (url: string, model = "m") =>
    (info: Info) =>
      OpenAiCompatible.model({ name: "local", model, keys, info, baseUrl: `${url}/v1` })
} as const
export type Vendor = keyof typeof vendors

/** The default policy with short backoffs, because these tests run in real time. */
export const policy: RecoveryPolicy.RecoveryPolicy = {
  ...RecoveryPolicy.interactive,
  // Object.entries forgets the key type; the keys are those of the rows.
  rows: Object.fromEntries(
    Object.entries<RecoveryPolicy.Row>(RecoveryPolicy.interactive.rows).map(([name, row]) => [
      name,
      { ...row, backoff: Backoff.constant("5 millis") }
    ])
  ) as RecoveryPolicy.RecoveryPolicy["rows"]
}

export interface Came {
  readonly text: string
  readonly finish: Response.FinishReason | undefined
  readonly failure: CallFailure.CallFailure | undefined
  /** Tag and reason of each failed attempt. */
  readonly failures: ReadonlyArray<string>
}

type Of = (info: Info) => ProviderModel.TargetSpec
type Chain = readonly [Of, ...Array<Of>]

interface Options {
  readonly policy?: RecoveryPolicy.RecoveryPolicy
  readonly limit?: number
}

export const asked = (
  way: Way,
  chain: Chain,
  { policy: rules = policy, limit }: Options = {}
): Effect.Effect<Came> =>
  Effect.suspend(() => {
    const failures: Array<string> = []
    const events = ResilienceEvents.layerHandler((event) =>
      Effect.sync(() => {
        if (event._tag === "AttemptFailed" && "reason" in event) failures.push(String(event.reason))
      })
    )
    const info: Info = way === "request" ? { wholeAnswers: "request" } : {}
    const [first, ...rest] = chain
    const targets = [first(info), ...rest.map((of) => of(info))] as const
    const layer = Failover.layer(targets, { policy: rules }).pipe(
      Layer.provideMerge(events),
      Layer.provideMerge(Warnings.layerOff)
    )
    const shown: Array<string> = []
    let finish: Response.FinishReason | undefined
    const answer =
      way === "stream"
        ? LanguageModel.streamText({ prompt: "hello" }).pipe(
            Stream.runForEach((part) =>
              Effect.sync(() => {
                if (part.type === "text-delta") shown.push(part.delta)
                if (part.type === "finish") finish = part.reason
              })
            )
          )
        : LanguageModel.generateText({ prompt: "hello" }).pipe(
            Effect.map((response) => {
              shown.push(response.text)
              finish = response.finishReason
            })
          )
    return Effect.matchEffect(
      limit === undefined ? answer : Effect.provideService(answer, OutputLimit.OutputLimit, limit),
      {
        onSuccess: () => Effect.undefined,
        onFailure: (error) =>
          Effect.flatMap(Effect.fromOption(Outlast.failureOf(error)), (failure) => Effect.succeed(failure))
      }
    ).pipe(
      Effect.map((failure): Came => ({ text: shown.join(""), finish, failure, failures })),
      Effect.provide(layer),
      Effect.orDie
    )
  })

/** The reason of the failure, or of the first target where all are out. */
export const reasonOf = ({ failure }: Came): string | undefined =>
  failure?._tag === "ProviderFailure" ? failure.reason._tag : failure?.targets[0]?.failure.reason._tag
