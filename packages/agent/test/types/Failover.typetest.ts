/** Checked by `tsc -b`; never run. */
import type { Config, Layer, Stream } from "effect"
import { Context, Effect, Schema } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import type { AiError } from "effect/ai"
import { Agent, Chain, Failover, Outlast, RecoveryPolicy } from "@outlast/agent"
import type { AgentFailed, CallFailure, Outcome, ProviderModel } from "@outlast/agent"
import { OutlastConfig } from "@outlast/agent/config"
import { Presets } from "@outlast/agent/presets"

class Http extends Context.Service<Http, { readonly x: 1 }>()("Http") {}
class Vault extends Context.Service<Vault, { readonly y: 1 }>()("Vault") {}

declare const overHttp: ProviderModel.TargetSpec<Config.ConfigError, Http>
declare const fromVault: ProviderModel.TargetSpec<never, Vault>
declare const alone: ProviderModel.TargetSpec

// A chain requires the services of its entries, and nothing else.
export const one: Layer.Layer<LanguageModel.LanguageModel, Chain.ChainError> = Failover.layer([alone])
export const both: Layer.Layer<LanguageModel.LanguageModel, Chain.ChainError, Http | Vault> = Failover.layer([
  overHttp,
  fromVault,
  alone
])
// @ts-expect-error: Vault is required
export const forgotten: Layer.Layer<LanguageModel.LanguageModel, Chain.ChainError, Http> = Failover.layer([
  overHttp,
  fromVault
])

// A list of unknown length compiles. It is refused when it is built, if it is empty.
const listed = [overHttp, fromVault]
export const fromList: Layer.Layer<LanguageModel.LanguageModel, Chain.ChainError, Http | Vault> =
  Failover.layer(listed)
export const configured: Layer.Layer<LanguageModel.LanguageModel, unknown, Http | Vault> =
  OutlastConfig.layerConfig(listed)
export const preset: Layer.Layer<LanguageModel.LanguageModel, unknown, Http | Vault> =
  Presets.nexo.layer(listed)
export const usable: Effect.Effect<readonly [(typeof listed)[number], ...typeof listed], Chain.ChainError> =
  Chain.detect(listed)

// An empty chain does not compile.
// @ts-expect-error: there is no first target
Failover.layer([])
const empty = [] as const
// @ts-expect-error: there is no first target
Failover.layer(empty)
// @ts-expect-error: there is no first target
Presets.nexo.layer([])
// @ts-expect-error: there is no first target
Chain.detect([])

// A policy has a row for every class.
declare const policy: RecoveryPolicy.RecoveryPolicy
Failover.layer([alone], { policy })
declare const RateLimit: RecoveryPolicy.Row
// @ts-expect-error: the rows of the other classes are missing
export const incomplete: RecoveryPolicy.RecoveryPolicy = { ...policy, rows: { RateLimit } }

// A class without a row does not compile.
const { interactive } = RecoveryPolicy
// @ts-expect-error: there is no row for it
Failover.layer([alone], { policy: { ...interactive, classOf: () => "nope" } })
Failover.layer([alone], { policy: { ...interactive, classOf: () => "Network" } })

// Reasons are caught by name, and only by existing names.
declare const call: Effect.Effect<string, CallFailure.CallFailure>
export const caught = call.pipe(
  Effect.catchReason("ProviderFailure", "RateLimit", (_reason, failure) => Effect.succeed(failure.detail))
)
call.pipe(
  // @ts-expect-error: there is no such reason
  Effect.catchReason("ProviderFailure", "TooManyRequests", () => Effect.succeed(""))
)

// The program of a user has the same types as without Outlast.
export const program: Effect.Effect<string, AiError.AiError | Chain.ChainError> = LanguageModel.generateText({
  prompt: "x"
}).pipe(
  Effect.map((response) => response.text),
  Effect.provide(Failover.layer([alone]))
)

// A run requires the handlers of its tools, and has their failures.
class Broke extends Schema.TaggedError<Broke>("Broke")("Broke", {}) {}
const Kit = Toolkit.make(
  Tool.make("fails", { success: Schema.String, failure: Broke }),
  Tool.make("tells", { success: Schema.String, failure: Schema.String, failureMode: "return" })
)
type Handlers = Tool.HandlersFor<typeof Kit.tools>
export const run: Effect.Effect<
  Outcome.Outcome,
  AgentFailed.AgentFailed | Broke,
  LanguageModel.LanguageModel | Handlers
> = Agent.run({ prompt: "x", toolkit: Kit })
export const stream: Stream.Stream<
  Agent.Part,
  AgentFailed.AgentFailed | Broke,
  LanguageModel.LanguageModel | Handlers
> = Agent.stream({ prompt: "x", toolkit: Kit })
export const bare: Effect.Effect<Outcome.Outcome, AgentFailed.AgentFailed, LanguageModel.LanguageModel> =
  Agent.run({
    prompt: "x"
  })
// @ts-expect-error: the handlers are required
export const unhandled: Effect.Effect<
  Outcome.Outcome,
  AgentFailed.AgentFailed | Broke,
  LanguageModel.LanguageModel
> = Agent.run({ prompt: "x", toolkit: Kit })

// A stream of an object has parts with its decoded type.
const Day = Schema.Struct({ at: Schema.FiniteFromString })
const days = Outlast.streamText({ prompt: "When?", schema: Day })
type WholeDay = Extract<Stream.Success<typeof days>, { readonly type: "object" }>
declare const wholeDay: WholeDay
export const at: number = wholeDay.value.at
type Partial = Extract<Stream.Success<typeof days>, { readonly type: "partial-object" }>
declare const partial: Partial
// @ts-expect-error: the partial object is unchecked
export const soFar: number = partial.value
// Without a schema there is no object.
const texts = Outlast.streamText({ prompt: "When?" })
export const none: Extract<Stream.Success<typeof texts>, { readonly type: "object" }> extends never
  ? true
  : false = true
