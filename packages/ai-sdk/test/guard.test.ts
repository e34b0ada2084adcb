/**
 * The guard of a run in the AI SDK's own loop, against servers in three wire formats.
 */
import { outlast, SafetyStop } from "@outlast/ai-sdk"
import { assert, describe, it } from "@effect/vitest"
import type { ModelMessage } from "ai"
import { generateText, isStepCount, Output, streamText, ToolLoopAgent, jsonSchema, tool } from "ai"
import { asking, caught, played, search, wires } from "./support.ts"

const quiet = { log: false } as const
const limits = { toolCalls: 5, loops: false } as const

describe("a limit of tool calls", () => {
  for (const wire of wires) {
    it(`lets exactly 5 of 25 identical calls run, by ${wire}`, async () => {
      await using provider = await played({ answers: asking(25) }, wire)
      await using agent = outlast({ models: [provider.model], guard: limits, ...quiet })
      const ran: Array<string> = []
      const run = agent.with({ tools: { search: search(ran) } })
      const error = await caught(generateText({ ...run, prompt: "Find it." }))
      assert.instanceOf(error, SafetyStop)
      assert.deepInclude(error, { reason: "max_tool_calls", limit: 5, isRetryable: false })
      assert.strictEqual(error.counts.toolCalls, 5)
      assert.lengthOf(ran, 5)
      assert.strictEqual(run.stopped, error)
      // The sixth call was refused, and no request followed.
      assert.lengthOf(await provider.server.requests(), 6)
    })
  }

  it("holds for calls of one step", async () => {
    const calls = Array.from({ length: 25 }, () => ({ name: "search", params: { query: "TODO" } }))
    await using provider = await played({ answers: [{ toolCalls: calls }, { text: "Done." }] })
    await using agent = outlast({ models: [provider.model], guard: limits, ...quiet })
    const ran: Array<string> = []
    const error = await caught(
      generateText({ ...agent.with({ tools: { search: search(ran) } }), prompt: "Find it." })
    )
    assert.instanceOf(error, SafetyStop)
    assert.lengthOf(ran, 5)
  })

  it("holds with a stopWhen of the program behind the spread", async () => {
    await using provider = await played({ answers: asking(25) })
    await using agent = outlast({ models: [provider.model], guard: limits, ...quiet })
    const ran: Array<string> = []
    const run = agent.with({ tools: { search: search(ran) } })
    const error = await caught(generateText({ ...run, stopWhen: isStepCount(25), prompt: "Find it." }))
    assert.instanceOf(error, SafetyStop)
    assert.lengthOf(ran, 5)
  })

  it("obeys a stopWhen of the program in the settings", async () => {
    await using provider = await played({ answers: asking(25) })
    await using agent = outlast({ models: [provider.model], guard: limits, ...quiet })
    const run = agent.with({ tools: { search: search() }, stopWhen: isStepCount(2) })
    const { steps } = await generateText({ ...run, prompt: "Find it." })
    assert.lengthOf(steps, 2)
    assert.isUndefined(run.stopped)
  })

  it("ends as a finished answer by option", async () => {
    await using provider = await played({ answers: asking(25) })
    await using agent = outlast({
      models: [provider.model],
      guard: { ...limits, onStop: "finish" },
      ...quiet
    })
    const run = agent.with({ tools: { search: search() } })
    const { text, finishReason } = await generateText({ ...run, prompt: "Find it." })
    assert.strictEqual(finishReason, "stop")
    assert.include(text, "reached maximum of 5 tool invocations")
    const streamed = streamText({ ...agent.with({ tools: { search: search() } }), prompt: "Find it." })
    assert.include(await streamed.text, "reached maximum of 5 tool invocations")
  })

  it("is that of one tool, by its name", async () => {
    await using provider = await played({ answers: asking(3) })
    await using agent = outlast({
      models: [provider.model],
      guard: { tools: { search: 1 }, loops: false },
      ...quiet
    })
    const ran: Array<string> = []
    const error = await caught(
      generateText({ ...agent.with({ tools: { search: search(ran) } }), prompt: "Find it." })
    )
    assert.deepInclude(error, { reason: "tool_limit", subject: "search" })
    assert.lengthOf(ran, 1)
  })
})

describe("other limits", () => {
  const cases = [
    { guard: { turns: 3 }, reason: "turns" },
    { guard: { tokens: 1 }, reason: "tokens" },
    { guard: { cost: 0.000_001 }, reason: "money" }
  ] as const
  for (const { guard, reason } of cases) {
    it(`stop the run by ${reason}`, async () => {
      await using provider = await played({ answers: asking(25) })
      await using agent = outlast({ models: [provider.model], guard: { ...guard, loops: false }, ...quiet })
      const error = await caught(
        generateText({ ...agent.with({ tools: { search: search() } }), prompt: "Find it." })
      )
      assert.instanceOf(error, SafetyStop)
      assert.strictEqual(error.reason, reason)
    })
  }
})

describe("loops", () => {
  it("are told to the model in the result, blocked, and stopped", async () => {
    await using provider = await played({ answers: asking(25) })
    await using agent = outlast({ models: [provider.model], ...quiet })
    const ran: Array<string> = []
    const outputs: Array<unknown> = []
    const error = await caught(
      generateText({
        ...agent.with({ tools: { search: search(ran) } }),
        prompt: "Find it.",
        onStepEnd: ({ toolResults }) => void outputs.push(...toolResults.map(({ output }) => output))
      })
    )
    assert.instanceOf(error, SafetyStop)
    assert.strictEqual(error.reason, "tool_loop")
    assert.lengthOf(ran, 5)
    // The program reads the plain output of each call that ran.
    assert.deepStrictEqual(
      outputs,
      ran.map(() => "Nothing.")
    )
    const last = JSON.stringify((await provider.server.requests()).at(-1)?.body)
    assert.include(last, "Nothing.\\n\\nsearch was called with the same arguments")
    assert.include(last, "This call was not run.")
    assert.isAbove(error.counts.blocked, 0)
  })

  it("of calls with new results do not stop a run", async () => {
    await using provider = await played({ answers: asking(25) })
    await using agent = outlast({ models: [provider.model], ...quiet })
    let n = 0
    const words = ["alpha", "beta", "gamma", "delta", "epsilon"]
    const tools = {
      search: search([], () => `${words[n++ % 5]} in file ${words[(n * 3) % 5]}${"x".repeat(n)}`)
    }
    const { text } = await generateText({ ...agent.with({ tools }), prompt: "Find it." })
    assert.strictEqual(text, "Done.")
  })
})

describe("streams", () => {
  it("end with the stop as error part, and the UI message stream ends in order", async () => {
    await using provider = await played({ answers: asking(25) })
    await using agent = outlast({ models: [provider.model], guard: limits, ...quiet })
    const ran: Array<string> = []
    const run = agent.with({ tools: { search: search(ran) } })
    const errors: Array<unknown> = []
    const result = streamText({ ...run, prompt: "Find it.", onError: ({ error }) => void errors.push(error) })
    const types: Array<string> = []
    for await (const chunk of result.toUIMessageStream({ onError: (error) => (error as Error).message })) {
      types.push(chunk.type)
      if (chunk.type === "error") assert.include(chunk.errorText, "reached maximum of 5 tool invocations")
    }
    assert.lengthOf(ran, 5)
    assert.deepStrictEqual(errors, [run.stopped])
    assert.instanceOf(run.stopped, SafetyStop)
    assert.strictEqual(types[0], "start")
    assert.strictEqual(types.filter((type) => type === "error").length, 1)
    assert.deepStrictEqual(types.slice(types.indexOf("error")), ["error", "finish-step", "finish"])
    assert.strictEqual(
      types.filter((type) => type === "start-step").length,
      types.filter((type) => type === "finish-step").length
    )
  })
})

describe("an answer that repeats itself", () => {
  it("is cut in the stream, with its block closed before the error", async () => {
    const line = "The tests of the parser fail because a token is missing at the end of the file. "
    await using provider = await played({ answers: [{ text: line.repeat(80) }] })
    await using agent = outlast({
      models: [provider.model],
      guard: { loops: { repetition: "cut" } },
      ...quiet
    })
    const run = agent.with()
    const types: Array<string> = []
    let length = 0
    for await (const part of streamText({ ...run, prompt: "Go on.", onError: () => {} }).stream) {
      if (part.type === "text-delta") length += part.text.length
      if (types.at(-1) !== part.type) types.push(part.type)
    }
    assert.deepStrictEqual(types.slice(types.indexOf("text-start")), [
      "text-start",
      "text-delta",
      "text-end",
      "error",
      "finish-step",
      "finish"
    ])
    assert.isBelow(length, line.length * 80)
    assert.isAbove(length, line.length)
    assert.strictEqual(run.stopped?.reason, "no_progress")
  })
})

describe("runs", () => {
  it("do not share counts, ten at once with the same settings", async () => {
    const answers = asking(3)
    const providers = await Promise.all(Array.from({ length: 10 }, () => played({ answers })))
    await using agent = outlast({
      models: [providers[0]!.model],
      guard: { toolCalls: 3, loops: false },
      ...quiet
    })
    const ran: Array<string> = []
    const run = agent.with({
      tools: { search: search(ran) },
      // Each run has a provider of its own, because a plan is that of one conversation.
      prepareStep: ({ initialMessages }) => ({ model: providers[Number(initialMessages[0]?.content)]!.model })
    })
    const texts = await Promise.all(
      providers.map(async (_, i) => (await generateText({ ...run, prompt: String(i) })).text)
    )
    assert.deepStrictEqual(
      texts,
      providers.map(() => "Done.")
    )
    assert.lengthOf(ran, 30)
    for (const provider of providers) await provider[Symbol.asyncDispose]()
  })

  it("of an agent are one for each generate", async () => {
    await using provider = await played({ answers: [...asking(25), ...asking(25)] })
    await using agent = outlast({ models: [provider.model], guard: limits, ...quiet })
    const ran: Array<string> = []
    const loop = new ToolLoopAgent(agent.with({ tools: { search: search(ran) } }))
    assert.instanceOf(await caught(loop.generate({ prompt: "Find it." })), SafetyStop)
    assert.lengthOf(ran, 5)
    assert.instanceOf(await caught(loop.generate({ prompt: "Find it." })), SafetyStop)
    assert.lengthOf(ran, 10)
  })

  it("inside a tool share the limits of the run around them", async () => {
    await using provider = await played({
      answers: [{ toolCalls: [{ name: "delegate", params: {} }] }, ...asking(25)]
    })
    await using agent = outlast({ models: [provider.model], guard: limits, ...quiet })
    const ran: Array<string> = []
    const inner: Array<unknown> = []
    const delegate = tool({
      inputSchema: jsonSchema<{ part?: string }>({ type: "object", properties: {} }),
      execute: async (): Promise<string> => {
        const run = agent.with({ tools: { search: search(ran) } })
        const error = await caught(generateText({ ...run, prompt: "Find it." }))
        inner.push(error)
        throw error
      }
    })
    const error = await caught(
      generateText({ ...agent.with({ tools: { delegate, search: search(ran) } }), prompt: "Delegate it." })
    )
    assert.instanceOf(error, SafetyStop)
    assert.strictEqual(error.reason, "max_tool_calls")
    // One call is that of the sub-agent itself.
    assert.lengthOf(ran, 4)
    assert.instanceOf(inner[0], SafetyStop)
    assert.lengthOf(inner, 1)
  })

  it("inside tools may be many, one after the other", async () => {
    const turns = 12
    const calls = Array.from({ length: turns }, (_, n) => ({
      toolCalls: [{ name: "delegate", params: { n } }]
    }))
    await using provider = await played({ answers: [...calls, { text: "Done." }] })
    await using other = await played({ answers: [{ text: "A part." }] })
    await using agent = outlast({ models: [provider.model], guard: { loops: false }, ...quiet })
    await using writer = outlast({ models: [other.model], ...quiet })
    const delegate = tool({
      inputSchema: jsonSchema<{ n: number }>({ type: "object", properties: { n: { type: "number" } } }),
      execute: async () => (await generateText({ ...writer.with(), prompt: "A part." })).text
    })
    const { text, steps } = await generateText({ ...agent.with({ tools: { delegate } }), prompt: "All." })
    assert.strictEqual(text, "Done.")
    assert.lengthOf(steps, turns + 1)
  })
})

describe("outputs", () => {
  it("keep their types, and tools may stream", async () => {
    await using provider = await played({
      answers: [{ toolCalls: [{ name: "count", params: { to: 3 } }] }, { text: '{"sum":6}' }]
    })
    await using agent = outlast({ models: [provider.model], ...quiet })
    const count = tool({
      inputSchema: jsonSchema<{ to: number }>({ type: "object", properties: { to: { type: "number" } } }),
      async *execute({ to }) {
        let sum = 0
        for (let n = 1; n <= to; n++) yield { sum: (sum += n) }
      }
    })
    const run = agent.with({
      tools: { count },
      output: Output.object({
        schema: jsonSchema<{ sum: number }>({
          type: "object",
          properties: { sum: { type: "number" } },
          required: ["sum"]
        })
      })
    })
    const { output, steps } = await generateText({ ...run, prompt: "Sum up." })
    assert.deepStrictEqual(output, { sum: 6 })
    assert.deepStrictEqual(steps[0]?.toolResults[0]?.output, { sum: 6 })
  })
})

describe("settings of the program", () => {
  it("compose: a prepareStep that returns its own model is counted once", async () => {
    await using provider = await played({ answers: asking(2) })
    await using agent = outlast({ models: [provider.model], guard: { turns: 3 }, ...quiet })
    const seen: Array<number> = []
    const run = agent.with({
      tools: { search: search() },
      prepareStep: ({ model, stepNumber }) => {
        seen.push(stepNumber)
        return { model, activeTools: ["search"] }
      }
    })
    const { text } = await generateText({ ...run, model: run.model, prompt: "Find it." })
    assert.strictEqual(text, "Done.")
    assert.deepStrictEqual(seen, [0, 1, 2])
  })

  it("compose: a prepareCall of the program, in a ToolLoopAgent", async () => {
    await using provider = await played({ answers: asking(1) })
    await using agent = outlast({ models: [provider.model], guard: limits, ...quiet })
    const loop = new ToolLoopAgent(
      agent.with({
        tools: { search: search() },
        prepareCall: (call: object) => ({ ...call, instructions: "Be brief." })
      })
    )
    assert.strictEqual((await loop.generate({ prompt: "Find it." })).text, "Done.")
    assert.include(JSON.stringify((await provider.server.requests())[0]?.body), "Be brief.")
  })

  it("hold the limits of overlapping runs even with a prepareStep behind the spread", async () => {
    await using provider = await played({ answers: asking(25) })
    await using agent = outlast({ models: [provider.model], guard: limits, ...quiet })
    const ran: Array<string> = []
    const run = agent.with({ tools: { search: search(ran) } })
    const settings = { ...run, prepareStep: () => ({}), stopWhen: isStepCount(25), prompt: "Find it." }
    await Promise.all([caught(generateText(settings)), caught(generateText(settings))])
    // Without ours, both count as one run.
    assert.lengthOf(ran, 5)
  })

  it("keep the toModelOutput of a tool, and add the nudge to it", async () => {
    await using provider = await played({ answers: asking(4) })
    await using agent = outlast({ models: [provider.model], guard: { loops: "tell" }, ...quiet })
    const own = tool({
      inputSchema: jsonSchema<{ query: string }>({
        type: "object",
        properties: { query: { type: "string" } }
      }),
      execute: async () => ({ found: 0 }),
      toModelOutput: ({ output }) => ({
        type: "content",
        value: [{ type: "text", text: `${output.found} hits` }]
      })
    })
    await generateText({ ...agent.with({ tools: { search: own } }), prompt: "Find it." })
    const last = JSON.stringify((await provider.server.requests()).at(-1)?.body)
    assert.include(last, "0 hits")
    assert.include(last, "search was called with the same arguments")
  })

  it("count approved calls, which run before the first step, in the run that follows them", async () => {
    await using provider = await played({ answers: asking(3) })
    await using agent = outlast({ models: [provider.model], guard: { toolCalls: 2, loops: false }, ...quiet })
    const ran: Array<string> = []
    const approved = tool({
      inputSchema: jsonSchema<{ query: string }>({
        type: "object",
        properties: { query: { type: "string" } }
      }),
      needsApproval: true,
      execute: async ({ query }) => {
        ran.push(query)
        return "Nothing."
      }
    })
    const tools = { search: approved }
    const run = agent.with({ tools })
    const first = await generateText({ ...run, prompt: "Find it." })
    assert.lengthOf(ran, 0)
    const request = first.content.find((part) => part.type === "tool-approval-request")
    assert.isDefined(request)
    const messages: Array<ModelMessage> = [
      { role: "user", content: "Find it." },
      ...first.response.messages,
      {
        role: "tool",
        content: [{ type: "tool-approval-response", approvalId: request.approvalId, approved: true }]
      }
    ]
    await generateText({ ...run, messages })
    assert.lengthOf(ran, 1)
    // A second one is a run of its own.
    await generateText({ ...run, messages: [...messages] })
    assert.lengthOf(ran, 2)
    assert.isUndefined(run.stopped)
  })
})
