/**
 * Runs one scenario of failing providers twice: over real HTTP, with real clients and a fake provider, and in memory,
 * with scripted models. Both runs use virtual time and must give the same story.
 *
 * A story has the result, the events with their times, and the requested keys. It omits facts that only one of the
 * runs has: ports, request ids, texts of clients, costs.
 *
 * **Example** (A rate-limited key)
 *
 * ```ts
 * tells("a limited key", {
 *   chain: [place("anthropic", "A", "B")],
 *   plan: { faults: [{ when: key("A"), fault: status(429) }], answers: [{ text: "hello" }] },
 *   program: say,
 *   expect: { result: "hello", asked: ["A", "B"] }
 * })
 * ```
 */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Logger, Option, Redacted } from "effect"
import type { LanguageModel } from "effect/ai"
import { AiError } from "effect/ai"
import { Failover, KeySource, Outlast, RecoveryPolicy } from "@outlast/agent"
import type { ModelInfo, ProviderModel, Targets } from "@outlast/agent"
import { Anthropic, Catalogue, Google, OpenAi } from "@outlast/providers"
import { ResilienceEvents } from "@outlast/resilience"
import { FakeProvider, FaultPlan, ScriptedModel } from "@outlast/testing"
import * as Sockets from "./Sockets.ts"
import * as VirtualTime from "./VirtualTime.ts"

// -----------------------------------------------------------------------------
// Places
// -----------------------------------------------------------------------------

/** The wire formats. `openai` is Chat Completions. */
export type Wire = "anthropic" | "openai" | "responses" | "google"

export const wires: ReadonlyArray<Wire> = ["anthropic", "openai", "responses", "google"]

/** One model at its own endpoint, with one target per key. */
export interface Place {
  readonly wire: Wire
  readonly keys: ReadonlyArray<string>
  readonly info?: ModelInfo.ModelInfo
}

export const place = (wire: Wire, ...keys: ReadonlyArray<string>): Place => ({ wire, keys })

/** Selects the requests of one key for a step of a plan. */
export const key = (name: string): FaultPlan.When => ({ key: valueOf(name) })

const valueOf = (name: string) => `secret-of-${name}`
const nameOf = (value: string | undefined) => value?.replace("secret-of-", "") ?? ""

const providers: Record<Wire, FakeProvider.Provider> = {
  anthropic: "anthropic",
  openai: "openai",
  responses: "openai",
  google: "google"
}

const models: Record<Wire, string> = {
  anthropic: "claude-sonnet-4-5",
  openai: "gpt-4.1",
  responses: "gpt-5",
  google: "gemini-3-flash"
}

const clients: Record<
  Wire,
  (model: string, options: Pick<Anthropic.Options, "baseUrl" | "keys" | "info">) => ProviderModel.TargetSpec
> = {
  anthropic: Anthropic.model,
  openai: OpenAi.chatModel,
  responses: OpenAi.model,
  google: Google.model
}

const setup = ({ wire, keys, info }: Place) => ({
  provider: providers[wire],
  model: models[wire],
  keys: keys.map((name) => KeySource.value(name, Redacted.make(valueOf(name)))),
  // Thinking models get longer limits; here all have the same.
  info: {
    ...Catalogue.infoOf(providers[wire], models[wire]),
    reasoning: false,
    wholeAnswers: "stream" as const,
    ...info
  }
})

// -----------------------------------------------------------------------------
// Stories
// -----------------------------------------------------------------------------

type Chain = readonly [ProviderModel.TargetSpec, ...Array<ProviderModel.TargetSpec>]

/** Services of a scenario's program. */
type Services = LanguageModel.LanguageModel | Targets.Targets

export interface Scenario<A, E> {
  readonly chain: readonly [Place, ...ReadonlyArray<Place>]
  readonly plan: FaultPlan.FaultPlan | FaultPlan.Runner
  /** Default: `interactive`, without jitter. */
  readonly policy?: RecoveryPolicy.RecoveryPolicy
  /** Builds the models, e.g. with a preset. Default: `Failover.layer` with the policy. */
  readonly layer?: (chain: Chain) => Layer.Layer<Services, unknown>
  readonly program: Effect.Effect<A, E, Services>
  /** Receives every event as it happens. */
  readonly heard?: (event: ResilienceEvents.ResilienceEvent) => void
}

export interface Story<A> {
  readonly result: A | { readonly failed: string }
  /** Milliseconds of virtual time. */
  readonly took: number
  /** The key of each request to the providers, in order. */
  readonly asked: ReadonlyArray<string>
  /** The events of the call, one line each: tag, key, reason, milliseconds to wait. */
  readonly lines: ReadonlyArray<string>
  /** All events, with the fields that both runs have. */
  readonly events: ReadonlyArray<string>
}

export const policy = RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive)

/** Runs a scenario with scripted models. */
export const inMemory = <A, E>(scenario: Scenario<A, E>): Effect.Effect<Story<A>> =>
  VirtualTime.run(toldInMemory(scenario))

/** Runs a scenario with real clients, each place behind its own server. */
export const overHttp = <A, E>(scenario: Scenario<A, E>): Effect.Effect<Story<A>> =>
  Effect.gen(function* () {
    yield* warm
    const io = yield* Sockets.watch
    return yield* VirtualTime.run(Effect.scoped(toldOverHttp(scenario)), io)
  }).pipe(Effect.scoped)

/** The in-memory run, for a caller with its own virtual time. */
export const toldInMemory = <A, E>(scenario: Scenario<A, E>): Effect.Effect<Story<A>> =>
  Effect.gen(function* () {
    const plan = yield* started(scenario.plan)
    const specs = yield* eachPlace(scenario.chain, (place, i) =>
      ScriptedModel.make({ ...setup(place), endpoint: endpointOf(place, i), plan: plan.runner })
    )
    return yield* told(scenario, specs, plan.asked)
  })

const toldOverHttp = <A, E>(scenario: Scenario<A, E>) =>
  Effect.gen(function* () {
    const plan = yield* started(scenario.plan)
    const servers = yield* eachPlace(scenario.chain, () => FakeProvider.make({ plan: plan.runner }))
    const [first, ...rest] = servers
    const spec = (server: FakeProvider.FakeProvider, place: Place) => {
      const { model, keys, info } = setup(place)
      return clients[place.wire](model, { keys, info, baseUrl: server.baseUrl(providers[place.wire]) })
    }
    const story = yield* told(
      scenario,
      [spec(first, scenario.chain[0]), ...rest.map((server, i) => spec(server, scenario.chain[i + 1]!))],
      plan.asked
    )
    const requests = yield* Effect.forEach(servers, (server) => server.requests)
    // A request that the real API would refuse is an error in the scenario.
    const refused = requests.flat().filter(({ outcome }) => outcome.type === "refused")
    assert.deepStrictEqual(
      refused.map(({ outcome }) => outcome),
      []
    )
    assert.strictEqual(requests.flat().length, story.asked.length)
    const named = (text: string) => servers.reduce((t, { url }, i) => t.replaceAll(url, hostOf(i)), text)
    return { ...story, events: story.events.map(named) }
  })

const eachPlace = <A, E, R>(
  [first, ...rest]: Scenario<unknown, unknown>["chain"],
  make: (place: Place, i: number) => Effect.Effect<A, E, R>
): Effect.Effect<readonly [A, ...Array<A>], E, R> =>
  Effect.gen(function* () {
    const made = yield* make(first, 0)
    return [made, ...(yield* Effect.forEach(rest, (place, i) => make(place, i + 1)))] as const
  })

const hostOf = (i: number) => `http://place-${i}`

const endpointOf = ({ wire }: Place, i: number) =>
  hostOf(i) + FakeProvider.wires.find(({ provider }) => provider === providers[wire])?.base

/** A started plan, and the keys of its requests. */
const started = (plan: Scenario<unknown, unknown>["plan"]) =>
  Effect.map(FaultPlan.start(plan), (runner) => {
    const asked: Array<string> = []
    const next: FaultPlan.Runner["next"] = (request) =>
      Effect.suspend(() => {
        asked.push(nameOf(request.key))
        return runner.next(request)
      })
    return { runner: { next }, asked }
  })

const told = <A, E>(scenario: Scenario<A, E>, chain: Chain, asked: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const events: Array<ResilienceEvents.ResilienceEvent> = []
    const watching = ResilienceEvents.layerHandler((event) =>
      Effect.sync(() => {
        events.push(event)
        scenario.heard?.(event)
      })
    )
    const model = scenario.layer?.(chain) ?? Failover.layer(chain, { policy: scenario.policy ?? policy })
    const began = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
    const [result, ended] = yield* Effect.matchEffect(scenario.program, {
      onSuccess: (value) => Effect.succeed<Story<A>["result"]>(value),
      onFailure: (error) => Effect.succeed({ failed: reasonOf(error) })
    }).pipe(
      Effect.zip(Effect.clockWith((clock) => clock.currentTimeMillis)),
      // Circuits publish their events a moment later.
      Effect.tap(() => Effect.sleep(1)),
      Effect.provide(Layer.provideMerge(model, watching)),
      // The story consists of events, not of log lines.
      Effect.provide(Logger.layer([])),
      Effect.scoped,
      Effect.orDie
    )
    const story: Story<A> = {
      result,
      took: ended - began,
      asked: [...asked],
      lines: events.flatMap(lineOf),
      events: inOrder(events).map((event) => JSON.stringify(event, known))
    }
    return story
  })

/** Sorts events of circuits last, because their position among the other events is not guaranteed. */
const inOrder = (events: ReadonlyArray<ResilienceEvents.ResilienceEvent>) => {
  const isOfCircuit = ({ _tag }: ResilienceEvents.ResilienceEvent) => _tag.startsWith("Circuit")
  return [...events.filter((event) => !isOfCircuit(event)), ...events.filter(isOfCircuit)]
}

/** The reason of a failed call, or the tag of any other error. */
const reasonOf = (error: unknown): string => {
  const failure = AiError.isAiError(error) ? Option.getOrUndefined(Outlast.failureOf(error)) : undefined
  if (failure === undefined) return String(error)
  return failure._tag === "ProviderFailure" ? failure.reason._tag : failure._tag
}

/** Events in the lines of a story. Other events are only compared. */
const toldTags = new Set([
  "AttemptStarted",
  "AttemptFailed",
  "AttemptOvertaken",
  "CallHedged",
  "TargetSwitched",
  "AnswerContinued",
  "SeamRepaired",
  "SeamUnsure",
  "CallWaiting",
  "CallGaveUp",
  "CallAbandoned",
  "CallSucceeded"
])

const lineOf = (event: ResilienceEvents.ResilienceEvent): ReadonlyArray<string> => {
  if (!toldTags.has(event._tag)) return []
  const { target, reason, delay } = event as {
    readonly target?: { readonly key: string }
    readonly reason?: string
    readonly delay?: number
  }
  return [
    [event._tag, target?.key, reason, delay === undefined || delay === 0 ? undefined : `+${delay}`]
      .filter((word) => word !== undefined)
      .join(" ")
  ]
}

/** Fields of events that differ between the runs. */
const unknown = new Set(["message", "rule", "status", "costUsd", "inputTokens", "outputTokens"])
const known = (field: string, value: unknown) => (unknown.has(field) ? undefined : value)

/** Warms up the HTTP client: its first request compiles a parser, which the I/O counter cannot see. */
let warmed: Promise<unknown> | undefined
const warm = Effect.promise(
  () =>
    (warmed ??= new Promise<void>((resolve) => {
      const server = createServer((_, response) => response.end()).listen(0, "127.0.0.1", async () => {
        // A server that listens on a port has an address of this kind.
        await (await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)).text()
        server.closeAllConnections()
        server.close(() => resolve())
      })
    }))
)

// -----------------------------------------------------------------------------
// Tests
// -----------------------------------------------------------------------------

/** The expectations of a test. Absent fields are not checked. */
interface Expected<A> {
  readonly result?: Story<A>["result"]
  readonly took?: number
  readonly asked?: ReadonlyArray<string>
  readonly lines?: ReadonlyArray<string>
}

export interface Told<A, E> extends Scenario<A, E> {
  readonly expect: Expected<A>
  /** `false` for a scenario without an in-memory counterpart. Default `true`. */
  readonly memory?: boolean
}

const check = <A, E>(scenario: Told<A, E>) =>
  Effect.gen(function* () {
    const http = yield* overHttp(scenario)
    const stories = scenario.memory === false ? { http } : { "in memory": yield* inMemory(scenario), http }
    for (const [where, story] of Object.entries(stories)) {
      for (const [what, expected] of Object.entries(scenario.expect)) {
        const seen = story[what as keyof Expected<A>]
        assert.deepStrictEqual(seen, expected, `${what}, ${where}\n${story.lines.join("\n")}`)
      }
    }
    if (stories["in memory"] !== undefined) assert.deepStrictEqual(http, stories["in memory"])
  })

/** A test of one scenario. */
export const tells = <A, E>(name: string, scenario: Told<A, E>) => it.live(name, () => check(scenario))
