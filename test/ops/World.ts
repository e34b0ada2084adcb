/** A program with a chain on fake providers over HTTP, seen through `Ops`. */
import { Duration, Effect, Layer, Redacted, Schema, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { Activity, Failover, FailoverMetrics, KeySource, RecoveryPolicy, Targets } from "@outlast/agent"
import { Host } from "@outlast/node"
import { Ops } from "@outlast/node/ops"
import { Anthropic, OpenAi } from "@outlast/providers"
import { CircuitBreaker, Metrics, ResilienceEvents, Warnings } from "@outlast/resilience"
import { FakeProvider } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"

const key = (name: string, state: string) => KeySource.value(name, Redacted.make(`secret-of-${state}`))

const answers: FaultPlan.FaultPlan["answers"] = () => ({ text: "The Nile." })

/** The first two keys of the first model fail, and another provider answers. */
export const failing: FaultPlan.FaultPlan = {
  answers,
  faults: [
    { when: { key: "secret-of-revoked" }, times: "always", fault: { type: "status", status: 401 } },
    {
      when: { key: "secret-of-busy" },
      times: "always",
      fault: { type: "status", status: 429, headers: { "retry-after": "90" } }
    }
  ]
}

/** Circuits that all parts of one program share. */
const Breaker = Layer.effect(CircuitBreaker.CircuitBreaker, CircuitBreaker.make())

/** Hedges a call after a moment: a late first token can be seen without a long wait. */
export const hedged: RecoveryPolicy.RecoveryPolicy = {
  ...RecoveryPolicy.interactive,
  hedge: { after: Duration.millis(300), afterLook: Duration.millis(300), atMost: 1, reserve: 3 }
}

const Model = (plan: FaultPlan.FaultPlan, policy: RecoveryPolicy.RecoveryPolicy) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan })
      const breaker = yield* CircuitBreaker.CircuitBreaker
      return Failover.layer(
        [
          Anthropic.model("claude-sonnet-4-5", {
            baseUrl: server.baseUrl("anthropic"),
            keys: [key("ANTHROPIC_API_KEY", "revoked"), key("ANTHROPIC_API_KEY_2", "busy")]
          }),
          OpenAi.chatModel("gpt-4.1", {
            baseUrl: server.baseUrl("openai"),
            keys: [key("OPENAI_API_KEY", "good")]
          })
        ],
        {
          policy,
          breaker,
          circuitsOf: ({ model, provider }) => ({ endpoint: provider, model: `${provider}/${model}` })
        }
      )
    })
  )

const Shown = Layer.effectDiscard(
  Effect.gen(function* () {
    const activity = yield* Activity.make
    yield* Host.section("targets", Activity.chain)
    yield* Host.section("activity", activity.json)
  })
)

/** One call of the model. */
export const call = LanguageModel.generateText({ prompt: "Name a river that flows north." })

/** Parameters of an action of the page. */
export const Lift = Schema.Struct({ target: Schema.String })

const off = { probes: false, metrics: false } as const

export const token = "operator-token-0123456789"

/** The program of an operator, who may open and close circuits. */
export const operated = (plan: FaultPlan.FaultPlan, policy?: RecoveryPolicy.RecoveryPolicy) =>
  Layer.unwrap(
    Effect.map(CircuitBreaker.CircuitBreaker, (breaker) => {
      const circuit = (doc: string, run: (circuit: string) => Effect.Effect<void>) =>
        Ops.action({
          doc,
          params: Schema.Struct({ circuit: Schema.String }),
          subject: ({ circuit }) => circuit,
          run: ({ circuit }) => Effect.as(run(circuit), null)
        })
      const actions = {
        trip: circuit("Opens a circuit.", (name) => breaker.trip(name)),
        reset: circuit("Closes a circuit.", (name) => breaker.reset(name))
      }
      return layer({ page: { port: 0, token: Redacted.make(token), actions } }, plan, policy)
    })
  ).pipe(Layer.provide(Breaker))

/** Asks for an action as the page does. */
export const operate = (action: string, params: unknown) =>
  Effect.flatMap(Ops.Ops, ({ page }) =>
    Effect.promise(() =>
      fetch(`http://127.0.0.1:${page}/api/actions/${action}`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify(params)
      }).then((response) => {
        if (!response.ok) throw new Error(`HTTP ${response.status}`)
      })
    )
  )

/** Targets that no call may be sent to now. */
export const targetsOut = Effect.gen(function* () {
  const list = yield* (yield* Targets.Targets).list
  return list.filter(({ state }) => state !== "ready").length
})

/** A call that reads a stream. */
export const stream = Stream.runDrain(LanguageModel.streamText({ prompt: "Name a river that flows north." }))

/** The program, on a port of its own or a given one. */
export const layer = (
  options: Ops.Options = {},
  plan: FaultPlan.FaultPlan = failing,
  policy: RecoveryPolicy.RecoveryPolicy = RecoveryPolicy.interactive
) =>
  Layer.mergeAll(Shown, Ops.layer({ name: "triage", version: "1.4.0", ...off, ...options })).pipe(
    Layer.provideMerge(Model(plan, policy)),
    Layer.provideMerge(Breaker),
    Layer.provideMerge(Host.layer({ wait: 0 })),
    Layer.provideMerge(FailoverMetrics.layer()),
    Layer.provideMerge(Metrics.layer()),
    Layer.provideMerge(ResilienceEvents.layer()),
    Layer.provideMerge(Warnings.layerOff)
  )
