/**
 * Frameworks that take models of the AI SDK, with their own packages.
 */
import { aisdk } from "@openai/agents-extensions/ai-sdk"
import { Agent, run, setTracingDisabled, tool } from "@openai/agents"
import { Agent as MastraAgent } from "@mastra/core/agent"
import { createTool } from "@mastra/core/tools"
import { assert, describe, it } from "@effect/vitest"
import { z } from "zod"
import { asking, world } from "./support.ts"

setTracingDisabled(true)

describe("Mastra", () => {
  const weather = (ran: Array<string>) =>
    createTool({
      id: "weather",
      description: "The weather in a city.",
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => {
        ran.push(city)
        return { weather: "rain" }
      }
    })

  it("generates and streams over the chain, with its own tools", async () => {
    await using it = await world(asking(2))
    const ran: Array<string> = []
    const agent = new MastraAgent({
      id: "reporter",
      name: "reporter",
      instructions: "Report the weather.",
      // @ts-expect-error: Mastra 1.71 has an older copy of the AI SDK's types, and refuses each model of today.
      model: it.agent.model,
      tools: { weather: weather(ran) }
    })
    const { text } = await agent.generate("How is Oslo?")
    assert.strictEqual(text, "It rains.")
    assert.lengthOf(ran, 2)
    const streamed = await agent.stream("How is Oslo?")
    assert.strictEqual(await streamed.text, "It rains.")
    assert.lengthOf(ran, 4)
    // The first model was refused once, and then left alone.
    assert.deepStrictEqual(await it.requests(), { refused: 1, answered: 6 })
  })
})

describe("OpenAI Agents", () => {
  it("runs an agent over the chain, with its own tools", async () => {
    await using it = await world(asking(2))
    const ran: Array<string> = []
    const agent = new Agent({
      name: "reporter",
      instructions: "Report the weather.",
      // @ts-expect-error: the types of OpenAI Agents do not compile with exactOptionalPropertyTypes.
      model: aisdk(it.agent.model),
      tools: [
        tool({
          name: "weather",
          description: "The weather in a city.",
          parameters: z.object({ city: z.string() }),
          execute: async ({ city }) => {
            ran.push(city)
            return "rain"
          }
        })
      ]
    })
    const { finalOutput } = await run(agent, "How is Oslo?")
    assert.strictEqual(finalOutput, "It rains.")
    assert.lengthOf(ran, 2)
    const streamed = await run(agent, "How is Oslo?", { stream: true })
    await streamed.completed
    assert.strictEqual(streamed.finalOutput, "It rains.")
    assert.strictEqual((await it.requests()).refused, 1)
  })
})
