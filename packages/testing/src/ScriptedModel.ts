/**
 * A model that follows a `FaultPlan` in memory, for programs under TestClock.
 *
 * A scripted model is a `TargetSpec`: it goes into a chain wherever a real target goes. It fails as a real
 * provider fails: statuses and bodies go through the real classifier, a broken connection is `Network`, a stall is an
 * effect that never ends and can be interrupted. All waits are `Effect.sleep`.
 *
 * Several models may share one plan: start it once with `FaultPlan.start` and give the runner to each.
 *
 * A keep-alive is a part without content: the metadata of the response again.
 *
 * It does not check requests against a provider's rules (`FakeProvider` does), has no headers but those of the plan,
 * and does not look at tools.
 *
 * **Example** (Two targets on one plan)
 *
 * ```ts
 * const plan = yield* FaultPlan.start({ faults, answers: [{ text: "hello" }] })
 * const first = yield* ScriptedModel.make({ provider: "anthropic", model: "claude-sonnet-4-5", plan })
 * const second = yield* ScriptedModel.make({ provider: "openai", model: "gpt-4.1", plan })
 * ```
 */
import { Clock, Effect, Redacted, Ref, Stream } from "effect"
import type { Prompt, Response } from "effect/ai"
import { Classifier } from "@outlast/agent"
import type { KeySource, ModelInfo, ProviderFailure, ProviderModel } from "@outlast/agent"
import { Options as Check } from "@outlast/resilience"
import type { Nothing, Reply, Respond, Speech } from "./FaultPlan.ts"
import * as FaultPlan from "./FaultPlan.ts"
import * as Parts from "./plan/parts.ts"
import { estimate, messagesOf } from "./plan/prompt.ts"
import * as Anthropic from "./server/anthropic/errors.ts"
import * as Google from "./server/google/errors.ts"
import { lowerCased } from "./server/play.ts"
import * as OpenAi from "./server/openai/errors.ts"

export interface Options {
  /** `openai` and `google` speak their own error bodies, every other name Anthropic's. */
  readonly provider: string
  readonly model: string
  readonly plan: FaultPlan.FaultPlan | FaultPlan.Runner
  /** Default none: a model that needs no key. */
  readonly keys?: ReadonlyArray<KeySource.KeySource>
  readonly info?: ModelInfo.ModelInfo
  /** Default empty: a model without network. */
  readonly endpoint?: string
}

/** One attempt that reached the model. */
export interface ScriptedRequest {
  /** Milliseconds of the Clock. */
  readonly time: number
  readonly streaming: boolean
  /** The value of the key. */
  readonly key: string | undefined
  readonly prompt: Prompt.Prompt
  /** All that the attempt was given. */
  readonly options: ProviderModel.ProviderRequest
  /** What the plan answered. */
  readonly reply: Reply
}

/** A target that follows a plan, and what it was asked. */
export interface ScriptedModel extends ProviderModel.TargetSpec {
  readonly requests: Effect.Effect<ReadonlyArray<ScriptedRequest>>
}

const { is } = Check

const checks: Check.Checks<Options> = {
  provider: is.required(is.text),
  model: is.required(is.text),
  // `FaultPlan.start` checks it.
  plan: is.required(is.anything),
  keys: is.secret(is.list(is.having(`a KeySource, for example KeySource.env("NAME")`, "name", "load"))),
  info: is.record(),
  endpoint: is.string
}

export const make = (options: Options): Effect.Effect<ScriptedModel> => {
  Check.fields("ScriptedModel", options, checks)
  return Effect.gen(function* () {
    const runner = yield* FaultPlan.start(options.plan)
    const requests = yield* Ref.make<ReadonlyArray<ScriptedRequest>>([])
    const { provider, model } = options

    const ask = (request: ProviderModel.ProviderRequest, streaming: boolean) =>
      Effect.gen(function* () {
        const key = request.key === undefined ? undefined : Redacted.value(request.key)
        const reply = yield* runner.next({
          provider,
          model,
          key,
          streaming,
          messages: messagesOf(request.prompt),
          maxOutputTokens: request.maxOutputTokens,
          inputTokens: estimate(request.prompt)
        })
        const time = yield* Clock.currentTimeMillis
        const made = { time, streaming, key, prompt: request.prompt, options: request, reply }
        yield* Ref.update(requests, (all) => [...all, made])
        if (reply.type !== "nothing") request.heard?.(reply.headers)
        return { reply, failing: failuresOf(provider, key) }
      })

    const generateText: ProviderModel.ProviderModel["generateText"] = (request) =>
      Effect.flatMap(ask(request, false), ({ reply, failing }) => {
        if (reply.type !== "speech") return failing.unanswered(reply)
        const spoken = reply.delay * reply.deltas.length
        return Effect.andThen(wait(spoken), ended(reply, failing, Parts.whole(reply)))
      })

    const streamText: ProviderModel.ProviderModel["streamText"] = (request) =>
      Stream.unwrap(
        Effect.map(ask(request, true), ({ reply, failing }) => {
          if (reply.type !== "speech") return Stream.fromEffect(failing.unanswered(reply))
          const { deltas, end } = Parts.streamed(reply, model)
          return Stream.fromIterable(deltas).pipe(
            Stream.mapEffect((parts) => Effect.as(wait(reply.delay), parts)),
            Stream.concat(keepAlives(reply, model)),
            Stream.concat(Stream.fromEffect(ended(reply, failing, end))),
            Stream.flattenIterable
          )
        })
      )

    return {
      provider,
      model,
      endpoint: options.endpoint ?? "",
      keys: options.keys ?? [],
      build: Effect.succeed({ info: options.info ?? {}, reportsHeaders: true, generateText, streamText }),
      requests: Ref.get(requests)
    }
  })
}

/** A sleep of nothing would still give up its turn. */
const wait = (millis: number) => (millis > 0 ? Effect.sleep(millis) : Effect.void)

/** What a stalled stream goes on to send, for ever; nothing for any other. */
const keepAlives = (
  { end }: Speech,
  modelId: string
): Stream.Stream<ReadonlyArray<Response.StreamPartEncoded>> => {
  if (end.type !== "stall" || end.keepAlive === undefined) return Stream.empty
  const part: Response.StreamPartEncoded = { type: "response-metadata", id: "scripted", modelId }
  return Stream.fromEffectRepeat(Effect.as(Effect.sleep(end.keepAlive), [part]))
}

type Failures = ReturnType<typeof failuresOf>

/** `parts` when the speech ends as it should, else how it ends. */
const ended = <A extends ReadonlyArray<Response.PartEncoded | Response.StreamPartEncoded>>(
  speech: Speech,
  failing: Failures,
  parts: A
): Effect.Effect<A, ProviderFailure.ProviderFailure> => {
  switch (speech.end.type) {
    case "finish":
      return Effect.succeed(parts)
    case "stall":
      return Effect.never
    case "error":
      return failing.classified({ error: speech.end.error })
    case "cut":
    case "reset":
      return failing.broken
  }
}

const failuresOf = (provider: string, key: string | undefined) => {
  const secrets = { values: key === undefined ? [] : [key] }
  const classified = (error: unknown): Effect.Effect<never, ProviderFailure.ProviderFailure> =>
    Effect.flatMap(Classifier.failure(error, { secrets, provider }), Effect.fail)
  // What undici says of a response whose connection went away.
  const broken = classified({
    message: "terminated",
    cause: { code: "UND_ERR_SOCKET", message: "other side closed" }
  })
  const unanswered = (reply: Respond | Nothing): Effect.Effect<never, ProviderFailure.ProviderFailure> => {
    if (reply.type === "nothing") return reply.reset ? broken : Effect.never
    const { status, headers, error } = reply
    const body = reply.body ?? errorsOf(provider).errorOf(status, error, "req_scripted", lowerCased(headers))
    return classified({
      message: `HTTP ${status}`,
      statusCode: status,
      responseHeaders: headers,
      responseBody: typeof body === "string" ? body : JSON.stringify(body)
    })
  }
  return { classified, broken, unanswered }
}

const errorsOf = (provider: string) =>
  provider === "openai" ? OpenAi : provider === "google" ? Google : Anthropic
