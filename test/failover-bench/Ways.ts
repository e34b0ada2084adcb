/** The ways in which a program asks a chain with default settings. */
import { Clock, Effect, Layer, Redacted, Stream } from "effect"
import type { Scope } from "effect"
import { LanguageModel } from "effect/ai"
import { Failover, KeySource } from "@outlast/agent"
import { toAiSdk } from "@outlast/ai-sdk"
import { OpenAiCompatible } from "@outlast/providers"
import { Warnings } from "@outlast/resilience"
import { generateText, streamText } from "ai"
import type { Call } from "./Situations.ts"

type Answer = Pick<Call, "text" | "error" | "model" | "outputTokens">

/** Asks the chain once. */
type Ask = Effect.Effect<Answer>

export interface Way {
  readonly name: string
  readonly streams: boolean
  /** A chain over the provider at `url`, until the scope ends. */
  readonly open: (url: string) => Effect.Effect<Ask, never, Scope.Scope>
}

const prompt = "Why do rivers run in bends?"

const layerOf = (url: string) => {
  const keys = [KeySource.value("KEY", Redacted.make("sk-test-0123456789abcdef"))]
  const target = (model: string) =>
    OpenAiCompatible.model({ name: "provider", model, keys, baseUrl: `${url}/v1` })
  return Failover.layer([target("primary"), target("fb-ok")]).pipe(Layer.provideMerge(Warnings.layerOff))
}

/** An answer that is collected while it arrives. */
interface Draft {
  text: string
  error: string | undefined
  model: string | undefined
  outputTokens: number | undefined
}

const draft = (): Draft => ({ text: "", error: undefined, model: undefined, outputTokens: undefined })

const asEffect =
  (read: (into: Draft) => Effect.Effect<void, unknown, LanguageModel.LanguageModel>) => (url: string) =>
    Effect.map(Effect.orDie(Layer.build(layerOf(url))), (services): Ask =>
      Effect.suspend(() => {
        const into = draft()
        return read(into).pipe(
          Effect.catch((error) => Effect.sync(() => void (into.error = String(error)))),
          Effect.as(into),
          Effect.provide(services)
        )
      })
    )

const asAiSdk = (read: (model: ReturnType<typeof toAiSdk>, into: Draft) => Promise<void>) => (url: string) =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const model = yield* Effect.acquireRelease(
      Effect.sync(() => toAiSdk(Layer.provideMerge(layerOf(url), Layer.succeed(Clock.Clock, clock)))),
      (model) => Effect.promise(() => model.dispose())
    )
    return Effect.promise(async (): Promise<Answer> => {
      const into = draft()
      await read(model, into).catch((error: unknown) => void (into.error = String(error)))
      return into
    })
  })

export const ways: ReadonlyArray<Way> = [
  {
    name: "Failover.layer, stream",
    streams: true,
    open: asEffect((into) =>
      Stream.runForEach(LanguageModel.streamText({ prompt }), (part) =>
        Effect.sync(() => {
          if (part.type === "text-delta") into.text += part.delta
          if (part.type === "response-metadata") into.model = part.modelId ?? into.model
          if (part.type === "finish") into.outputTokens = part.usage.outputTokens.total
        })
      )
    )
  },
  {
    name: "toAiSdk, streamText",
    streams: true,
    open: asAiSdk(async (model, into) => {
      for await (const part of streamText({ model, prompt, onError: () => {} }).fullStream) {
        if (part.type === "text-delta") into.text += part.text
        if (part.type === "error") into.error = String(part.error)
        if (part.type === "finish-step") {
          into.model = part.response.modelId
          into.outputTokens = part.usage.outputTokens
        }
      }
    })
  },
  {
    name: "Failover.layer, whole",
    streams: false,
    open: asEffect((into) =>
      Effect.map(LanguageModel.generateText({ prompt }), ({ content, text, usage }) => {
        into.text = text
        into.outputTokens = usage.outputTokens.total
        for (const part of content)
          if (part.type === "response-metadata") into.model = part.modelId ?? into.model
      })
    )
  },
  {
    name: "toAiSdk, generateText",
    streams: false,
    open: asAiSdk(async (model, into) => {
      const { response, text, usage } = await generateText({ model, prompt })
      Object.assign(into, { text, model: response.modelId, outputTokens: usage.outputTokens })
    })
  }
]
