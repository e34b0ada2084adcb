import { outlast, toAiSdk } from "@outlast/ai-sdk"
import type { SafetyStop } from "@outlast/ai-sdk"
import { Failover } from "@outlast/agent"
import { Anthropic } from "@outlast/providers"
import { createOpenAI } from "@ai-sdk/openai"
import type { InferUITools, LanguageModel, UIMessage } from "ai"
import {
  createProviderRegistry,
  generateText,
  hasToolCall,
  isStepCount,
  jsonSchema,
  Output,
  streamText,
  tool,
  ToolLoopAgent
} from "ai"

const openai = createOpenAI()
const agent = outlast({
  models: ["anthropic/claude-sonnet-4-5", openai("gpt-5.1"), Anthropic.model("claude-haiku-4-5")],
  providers: { openai },
  guard: { toolCalls: 50, time: "10 minutes", cost: 2, loops: "soft" },
  log: false
})
outlast({ models: ["openai:gpt-5.1"], providers: createProviderRegistry({ openai }) })

// @ts-expect-error: a limit that does not exist
outlast({ models: ["openai/gpt-5.1"], guard: { toolCall: 50 } })

// @ts-expect-error: a time without a known unit
outlast({ models: ["openai/gpt-5.1"], guard: { time: "10 parsecs" } })

const tools = {
  add: tool({
    inputSchema: jsonSchema<{ a: number; b: number }>({ type: "object" }),
    execute: async ({ a, b }) => ({ sum: a + b })
  })
}

type IsAny<A> = 0 extends 1 & A ? true : false

/** Fails to compile unless the types are the same, and neither is `any`. */
declare const same: <A>() => <B>(
  value: B &
    (IsAny<B> extends IsAny<A> ? ([A] extends [B] ? ([B] extends [A] ? unknown : never) : never) : never)
) => void

const run = agent.with({ tools })
const stopped: SafetyStop | undefined = run.stopped
const plain = await generateText({ model: openai("gpt-5.1"), tools, prompt: "" })
const guarded = await generateText({ ...run, prompt: "" })
same<(typeof plain.toolResults)[number]>()(guarded.toolResults[0]!)
same<(typeof plain.toolCalls)[number]>()(guarded.toolCalls[0]!)
for (const result of guarded.staticToolResults) same<number>()(result.output.sum)
for (const call of guarded.staticToolCalls) same<number>()(call.input.a)

// @ts-expect-error: the tool has no such output
same<number>()(guarded.staticToolResults[0]!.output.product)

const schema = jsonSchema<{ total: number }>({ type: "object" })
const inside = await generateText({ ...agent.with({ tools, output: Output.object({ schema }) }), prompt: "" })
same<number>()(inside.output.total)
const beside = await generateText({ ...run, output: Output.object({ schema }), prompt: "" })
same<number>()(beside.output.total)
const streamed = streamText({ ...agent.with({ tools, temperature: 0 }), prompt: "" })
same<ReturnType<typeof streamText<typeof tools>>["toolResults"]>()(streamed.toolResults)
export type Message = UIMessage<never, never, InferUITools<typeof tools>>

// Settings of the program, composed and with its types.
agent.with({ tools, stopWhen: [isStepCount(3), hasToolCall("add")] })
agent.with({
  tools,
  prepareStep: ({ steps, stepNumber }) => {
    same<number>()(stepNumber)
    const result = steps[0]?.staticToolResults[0]
    if (result !== undefined) same<number>()(result.output.sum)
    return { activeTools: ["add"] }
  }
})

const chosen = agent.with({ tools, prepareStep: ({ model }) => ({ model, activeTools: ["add"] }) })
await generateText({ ...chosen, prompt: "" })

// @ts-expect-error: a tool that does not exist
agent.with({ tools, prepareStep: () => ({ activeTools: ["subtract"] }) })

// The context of a run keeps its type.
const context = { user: "Ada" }
const told = await generateText({ ...run, runtimeContext: context, prompt: "" })
same<string>()(told.steps[0]!.runtimeContext.user)
const own = await generateText({ ...agent.with({ tools, runtimeContext: context }), prompt: "" })
same<string>()(own.steps[0]!.runtimeContext.user)

const loop = new ToolLoopAgent({ ...run, instructions: "Be brief." })
const generated = await loop.generate({ prompt: "" })
same<(typeof plain.toolResults)[number]>()(generated.toolResults[0]!)

export const models: ReadonlyArray<LanguageModel> = [
  agent.model,
  agent.with().model,
  toAiSdk(Failover.layer([Anthropic.model("claude-sonnet-4-5")]))
]
export { stopped }
