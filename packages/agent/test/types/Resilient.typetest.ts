import { Resilient } from "@outlast/agent"
import type { CircuitBreaker } from "@outlast/resilience"
import { Effect, Schema } from "effect"
import type { Layer } from "effect"
import { Tool, Toolkit } from "effect/ai"

const fields = {
  parameters: Schema.Struct({ q: Schema.String }),
  success: Schema.String,
  failure: Schema.String
}
const Kit = Toolkit.make(Resilient.readonly(Tool.make("look", fields)), Tool.make("pay", fields))

// Only what the program has anyway, and a breaker, are needed.
export const tools: Layer.Layer<
  Tool.Handler<"look"> | Tool.Handler<"pay">,
  never,
  Tool.Handler<"look"> | Tool.Handler<"pay"> | CircuitBreaker.CircuitBreaker
> = Resilient.toolkit(Kit, { tools: { look: { retry: { attempts: 2 } }, pay: { timeout: "1 second" } } })

// @ts-expect-error: a tool that does not say that it does no harm is never called again
Resilient.toolkit(Kit, { tools: { pay: { retry: { attempts: 2 } } } })

// @ts-expect-error: no such tool
Resilient.toolkit(Kit, { tools: { fly: {} } })

Resilient.toolkit(Kit, {
  tools: {
    pay: {
      retry: false,
      // What the handler can fail with is known.
      classify: (error) => (typeof error === "string" ? { retry: false } : { retry: true })
    }
  }
})

// The parameters of a marked tool are still known.
Kit.of({ look: ({ q }) => Effect.succeed(q.toUpperCase()), pay: ({ q }) => Effect.succeed(q) })
