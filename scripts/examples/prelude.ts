/**
 * Values that the examples of headers and documents use without saying where they come from. An example that declares
 * one of these names itself uses its own. Nothing of this exists at run time: an example that is run uses none of it.
 */
import type { Context, Deferred, Duration, Effect, Layer, Metric, Redacted, Schema, Stream } from "effect"
import type { AiError, EmbeddingModel, LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import type { Redis } from "effect/persistence"
import type { SqlClient } from "effect/sql"
import type { ChildProcess } from "node:child_process"
import type {
  Agent,
  CallLimiter,
  Chain,
  ChainStore,
  Compaction,
  ProviderFailure,
  SafetyGuard
} from "@outlast/agent"
import type { TargetRef } from "@outlast/agent/conversation"
import type { Inbound } from "@outlast/agent/guard"
import type { RunEvent, Suspended } from "@outlast/agent/loop"
import type { Outbox, OutboxEvent } from "@outlast/delivery"
import type { AiSdk } from "@outlast/providers"
import type { Backoff, CircuitPolicy, FailureStreaks, ResilienceEvents } from "@outlast/resilience"
import type { Tasks } from "@outlast/tasks"
import type { FaultPlan } from "@outlast/testing"

type Specs = Chain.Specs<never, never>

declare global {
  // --- models and conversations

  /** A program that calls the model of its environment. */
  const program: Effect.Effect<
    LanguageModel.GenerateTextResponse<{}>,
    AiError.AiError,
    LanguageModel.LanguageModel
  >
  /** One request to a provider, as `Direct` makes it. */
  const request: Effect.Effect<string, ProviderFailure.ProviderFailure>
  const attempt: (key: Redacted.Redacted) => Effect.Effect<string, ProviderFailure.ProviderFailure>
  const prompt: Prompt.Prompt
  const task: Prompt.RawInput
  const history: Prompt.Prompt
  const message: Prompt.Message
  const fact: Prompt.TextPart
  const isDecision: (message: Prompt.Message) => boolean
  const chain: Specs
  const targets: Specs
  const claude: Specs[0]
  const gpt: Specs[0]
  const opus: Specs[0]
  const sonnet: Specs[0]
  /** The layer of a chain. */
  const Model: Layer.Layer<LanguageModel.LanguageModel>
  const haiku: Context.Service.Shape<typeof LanguageModel.LanguageModel>
  const model: string
  const mistral: (model: string) => ReturnType<Parameters<typeof AiSdk.model>[0]["create"]>
  const target: TargetRef.TargetRef
  const ref: TargetRef.TargetRef
  /** The language model of a vendor's package, and its configuration for one call. */
  const vendorLayer: Layer.Layer<LanguageModel.LanguageModel>
  const VendorConfig: Context.Key<"VendorConfig", { readonly max_tokens: number }>
  const baseUrl: string
  const key: string
  const exchangeRefreshToken: Effect.Effect<
    { readonly access_token: string; readonly expires_at: number },
    AiError.AiError
  >
  const store: ChainStore.ChainStore
  const compaction: Compaction.Service
  /** Tokens of a context window. */
  const window: number
  const encode: (text: string) => ReadonlyArray<number>
  const send: Effect.Effect<{ readonly usage: Parameters<CallLimiter.Permit["settle"]>[0] }>
  const limits: CallLimiter.Options["limits"]
  const summarise: typeof program
  const createAmazonBedrock: (options: {
    readonly apiKey?: string | undefined
    readonly fetch: typeof globalThis.fetch
  }) => typeof mistral

  // --- tools and agents

  const Ticket: Schema.Struct<{ readonly text: Schema.String }>
  const Workspace: Toolkit.Toolkit<{}>
  const toolkit: Toolkit.Toolkit<{}>
  const tools: ReadonlyArray<Tool.Any>
  const options: Agent.Options<{}>
  /** The events of a run, as a program has stored them. */
  const stored: ReadonlyArray<RunEvent.RunEvent>
  const Web: Toolkit.Toolkit<{}>
  const suspended: Suspended.Suspended
  const confirm: (text: string) => Effect.Effect<boolean>
  const isAllowed: (tool: string, params: unknown) => boolean
  const hasSecret: (result: unknown) => boolean
  const testsPass: Effect.Effect<boolean>
  const guard: SafetyGuard.Host
  const answer: Deferred.Deferred<boolean>
  const messages: Stream.Stream<Inbound.InboundEvent>
  const reply: (message: Inbound.InboundEvent) => Effect.Effect<void>
  const ReadFile: Tool.Tool<"read_file", any>
  const Pay: Tool.Tool<"pay", any>
  const ProviderEmbeddings: Layer.Layer<EmbeddingModel.EmbeddingModel>

  const parameters: Schema.Struct<{ readonly text: typeof Schema.String }>
  const success: typeof Schema.String
  const failure: typeof Schema.String
  const search: (parameters: { readonly text: string }) => Effect.Effect<string>
  const pay: (parameters: { readonly text: string }) => Effect.Effect<string>
  /** The schema of an object that a model writes. */
  const Recipe: Schema.Struct<{ readonly title: typeof Schema.String }>

  // --- streams of a user interface

  const show: (part: unknown) => Effect.Effect<void>
  const draw: (value: unknown) => Effect.Effect<void>
  const clearScreen: Effect.Effect<void>
  const save: (value: unknown) => Effect.Effect<void>
  const clear: Effect.Effect<void>

  /** The layers of an outbox, and a program that runs until it is stopped. */
  const Delivery: Layer.Layer<Outbox.Outbox>
  const main: Effect.Effect<void>
  const clientInfo: { readonly name: string; readonly version: string }

  // --- calls of a service that is not a model

  class Busy extends Error {
    readonly _tag: "Busy"
    readonly wait?: Duration.Duration
  }
  class NotFound extends Error {
    readonly _tag: "NotFound"
  }
  const fetchAnswer: Effect.Effect<string, Busy | NotFound>
  const streamAnswer: Stream.Stream<string, Busy>
  const call: Effect.Effect<string, Busy>
  const ping: Effect.Effect<void, Busy>
  const serve: Effect.Effect<never>
  const error: Busy
  const child: ChildProcess
  const tab: { readonly isClosed: () => boolean; readonly onClose: (run: () => void) => void }
  const socket: { readonly onMessage: (run: () => void) => void; readonly onError: (run: () => void) => void }
  const RedisLive: Layer.Layer<Redis.Redis>
  const streaks: FailureStreaks.FailureStreaks
  const spec: Backoff.Backoff
  const policy: CircuitPolicy.CircuitPolicy

  /** A message of a chat, and the answer to it. */
  const update: { readonly text: string; readonly photos: ReadonlyArray<unknown> }
  const respond: (message: typeof update) => Effect.Effect<void>
  /** The first request to a child process. */
  const initialize: (rpc: unknown) => Effect.Effect<void>
  const mailsSent: Metric.Counter<number>
  interface MailSent extends ResilienceEvents.ResilienceEvent {
    readonly _tag: "MailSent"
    readonly server: string
  }

  // --- stores and events

  const sql: SqlClient.SqlClient
  const rows: readonly [Record<string, unknown>, ...Array<Record<string, unknown>>]
  const id: number
  const body: Uint8Array
  const bill: (event: OutboxEvent) => Effect.Effect<void>

  /** Makes a process a worker for an agent. */
  const TriageWorker: Layer.Layer<never, never, Tasks.Workers>

  // --- tests

  const plan: FaultPlan.FaultPlan
  const faults: ReadonlyArray<FaultPlan.Step>
}
