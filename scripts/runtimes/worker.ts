/** An agent with a tool in workerd. Its first model is rate limited, and the second one answers over HTTP. */
import { Console, Effect, Redacted, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Failover, KeySource } from "@outlast/agent"
import { Anthropic, OpenAi } from "@outlast/providers"

const Clock = Toolkit.make(
  Tool.make("time", { parameters: Schema.Struct({ city: Schema.String }), success: Schema.String })
)

export default {
  fetch: async (request: Request): Promise<Response> => {
    const { searchParams } = new URL(request.url)
    const keys = [KeySource.value("demo", Redacted.make("demo"))]
    const Model = Failover.layer([
      Anthropic.model("claude-sonnet-4-5", { baseUrl: searchParams.get("anthropic") ?? "", keys }),
      OpenAi.chatModel("gpt-4.1", { baseUrl: searchParams.get("openai") ?? "", keys })
    ])
    const run = Agent.run({ prompt: "What time is it in Lisbon?", toolkit: Clock }).pipe(
      Effect.tap(({ text }) => Console.log(text)),
      Effect.provide([Model, Clock.toLayer({ time: () => Effect.succeed("21:10") })])
    )
    const { status, text, turns, toolCalls } = await Effect.runPromise(run)
    return Response.json({ status, text, turns, toolCalls })
  }
}
