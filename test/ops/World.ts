/** A program with a chain on fake providers over HTTP, seen through `Ops`. */
import { Clock, Effect, Layer, Redacted, Schema } from "effect"
import { LanguageModel } from "effect/ai"
import { Activity, Failover, FailoverMetrics, KeySource } from "@outlast/agent"
import { Targets } from "@outlast/agent/failover"
import { Host } from "@outlast/node"
import { Ops } from "@outlast/node/ops"
import { Anthropic, OpenAi } from "@outlast/providers"
import { Metrics, ResilienceEvents, Warnings } from "@outlast/resilience"
import { FakeProvider } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"
import * as Sections from "../../packages/cli/src/serve/Sections.ts"

const key = (name: string) => KeySource.value(name, Redacted.make(`secret-of-${name}`))

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

/** Also, from its fourth call on, the other provider is overloaded. */
export const slow: FaultPlan.FaultPlan = {
  answers,
  faults: [
    ...(failing.faults ?? []),
    { when: { key: "secret-of-good" }, skip: 3, times: "always", fault: { type: "status", status: 529 } }
  ]
}

const Model = (plan: FaultPlan.FaultPlan) =>
  Layer.unwrap(
    Effect.map(FakeProvider.make({ plan }), (server) =>
      Failover.layer([
        Anthropic.model("claude-sonnet-4-5", {
          baseUrl: server.baseUrl("anthropic"),
          keys: [key("revoked"), key("busy")]
        }),
        OpenAi.chatModel("gpt-4.1", { baseUrl: server.baseUrl("openai"), keys: [key("good")] })
      ])
    )
  )

const Shown = Layer.effectDiscard(
  Effect.gen(function* () {
    const targets = yield* Targets.Targets
    const activity = yield* Activity.make
    yield* Host.section(
      "targets",
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.map(targets.list, (list) => Sections.targets(list, now))
      )
    )
    yield* Host.section(
      "activity",
      Effect.map(activity.view, (view) => JSON.parse(JSON.stringify(view)))
    )
  })
)

/** One call of the model. */
export const call = LanguageModel.generateText({ prompt: "Name a river that flows north." })

/** Parameters of an action of the page. */
export const Lift = Schema.Struct({ target: Schema.String })

const off = { probes: false, metrics: false } as const

/** The program, on a port of its own or a given one. */
export const layer = (options: Ops.Options = {}, plan: FaultPlan.FaultPlan = failing) =>
  Layer.mergeAll(Shown, Ops.layer({ name: "triage", version: "1.4.0", ...off, ...options })).pipe(
    Layer.provideMerge(Model(plan)),
    Layer.provideMerge(Host.layer({ wait: 0 })),
    Layer.provideMerge(FailoverMetrics.layer()),
    Layer.provideMerge(Metrics.layer()),
    Layer.provideMerge(ResilienceEvents.layer()),
    Layer.provideMerge(Warnings.layerOff)
  )
