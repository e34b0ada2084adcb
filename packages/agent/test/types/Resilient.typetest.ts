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

// Only the program's own services and a breaker are required.
export const tools: Layer.Layer<
  Tool.Handler<"look"> | Tool.Handler<"pay">,
  never,
  Tool.Handler<"look"> | Tool.Handler<"pay"> | CircuitBreaker.CircuitBreaker
> = Resilient.toolkit(Kit, { tools: { look: { retry: { attempts: 2 } }, pay: { timeout: "1 second" } } })

// @ts-expect-error: a tool that is not annotated as safe to call again is never retried
Resilient.toolkit(Kit, { tools: { pay: { retry: { attempts: 2 } } } })

// @ts-expect-error: no such tool
Resilient.toolkit(Kit, { tools: { fly: {} } })

Resilient.toolkit(Kit, {
  tools: {
    pay: {
      retry: false,
      // The failures of the handler are known.
      classify: (error) => (typeof error === "string" ? { retry: false } : { retry: true })
    }
  }
})

// The parameters of a marked tool are still known.
Kit.of({ look: ({ q }) => Effect.succeed(q.toUpperCase()), pay: ({ q }) => Effect.succeed(q) })
