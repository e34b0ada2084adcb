/**
 * A model that follows a `FaultPlan` in memory, for programs under TestClock.
 *
 * A scripted model is a `TargetSpec` and can replace any target of a chain. Failures are like those of a real provider:
 * statuses and bodies go through the real classifier, a broken connection is `Network`, and a stall is an effect that
 * never ends but can be interrupted. All waits are `Effect.sleep`.
 *
 * Several models can share one plan: start it once with `FaultPlan.start`, and pass the runner to each.
 *
 * A keep-alive is a part without content, which repeats the metadata of the response.
 *
 * **Limits.** Requests are not checked against a provider's rules (`FakeProvider` does that). Headers come only from
 * the plan. Tools are ignored.
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
import type { Nothing, Reply, Respond, Speech } from "./plan/FaultPlan.ts"
import * as FaultPlan from "./plan/FaultPlan.ts"
import * as Parts from "./plan/parts.ts"
import { estimate, messagesOf } from "./plan/prompt.ts"
import * as Anthropic from "./server/anthropic/errors.ts"
import * as Google from "./server/google/errors.ts"
import { lowerCased } from "./server/play.ts"
import * as OpenAi from "./server/openai/errors.ts"

export interface Options {
  /** Name of the provider. `openai` and `google` use their own error bodies, every other name Anthropic's. */
  readonly provider: string
  readonly model: string
  readonly plan: FaultPlan.FaultPlan | FaultPlan.Runner
  /** Keys of the model. Default: none, for a model that needs no key. */
  readonly keys?: ReadonlyArray<KeySource.KeySource>
  readonly info?: ModelInfo.ModelInfo
  /** Base URL of the target. Default: empty, for a model without network. */
  readonly endpoint?: string
}

/** One attempt that reached the model. */
export interface ScriptedRequest {
  /** Time of the attempt in milliseconds of the Clock. */
  readonly time: number
  readonly streaming: boolean
  /** The value of the key. */
  readonly key: string | undefined
  readonly prompt: Prompt.Prompt
  /** The whole request of the attempt. */
  readonly options: ProviderModel.ProviderRequest
  /** The reply of the plan. */
  readonly reply: Reply
}

/** A target that follows a plan and records its requests. */
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

/** Skips a sleep of 0 ms, which would still yield to other fibers. */
const wait = (millis: number) => (millis > 0 ? Effect.sleep(millis) : Effect.void)

/** The endless keep-alives of a stalled stream. Nothing for other replies. */
const keepAlives = (
  { end }: Speech,
  modelId: string
): Stream.Stream<ReadonlyArray<Response.StreamPartEncoded>> => {
  if (end.type !== "stall" || end.keepAlive === undefined) return Stream.empty
  const part: Response.StreamPartEncoded = { type: "response-metadata", id: "scripted", modelId }
  return Stream.fromEffectRepeat(Effect.as(Effect.sleep(end.keepAlive), [part]))
}

type Failures = ReturnType<typeof failuresOf>

/** Returns `parts` when the answer ends regularly. Otherwise fails or stalls like the answer. */
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
  // The error of undici for a connection that closed during a response.
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
