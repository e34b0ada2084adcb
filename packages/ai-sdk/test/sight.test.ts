/**
 * What a program sees of its agent: events, lines, targets, metadata.
 */
import type { OutlastEvent } from "@outlast/ai-sdk"
import { outlast } from "@outlast/ai-sdk"
import { assert, describe, it } from "@effect/vitest"
import { generateText } from "ai"
import { asking, caught, played, search } from "./support.ts"

const overloaded = {
  answers: [{ text: "Hello." }],
  faults: [{ fault: { type: "status", status: 401 } }]
} as const

describe("events", () => {
  it("reach a callback and a loop, in order", async () => {
    await using dead = await played(overloaded)
    await using provider = await played({ answers: [{ text: "Hello." }] }, "openai")
    const heard: Array<OutlastEvent> = []
    const agent = outlast({
      models: [dead.model, provider.model],
      onEvent: (event) => void heard.push(event),
      log: false
    })
    const read: Array<string> = []
    const reading = (async () => {
      for await (const event of agent.events) read.push(event._tag)
    })()
    await agent.targets()
    await generateText({ ...agent.with(), prompt: "Hi" })
    await agent.close()
    await reading
    const tags = heard.map(({ _tag }) => _tag)
    assert.includeMembers(tags, ["AttemptStarted", "AttemptFailed", "TargetSwitched", "CallSucceeded"])
    assert.includeMembers(read, ["AttemptFailed", "CallSucceeded"])
    assert.isTrue(heard.every(({ at }) => at > 0))
  })

  it("of the guard are among them, each stop once", async () => {
    await using provider = await played({ answers: asking(25) })
    const heard: Array<OutlastEvent> = []
    const lines: Array<string> = []
    await using agent = outlast({
      models: [provider.model],
      guard: { toolCalls: 3 },
      onEvent: (event) => void heard.push(event),
      log: (line) => void lines.push(line)
    })
    const run = agent.with({ tools: { search: search() } })
    await caught(generateText({ ...run, prompt: "Find it." }))
    const stops = heard.flatMap((event) => (event._tag === "GuardStopped" ? [event] : []))
    assert.lengthOf(stops, 1)
    assert.deepInclude(stops[0], { reason: "max_tool_calls", limit: 3 })
    assert.deepStrictEqual(lines, ["[outlast] ✗ the guard stopped the run: max_tool_calls"])
  })
})

describe("targets", () => {
  it("go on when a callback of the program fails, also an async one", async () => {
    await using provider = await played({ answers: [{ text: "Hello." }] })
    const failures: Record<string, () => void> = {
      throws: () => {
        throw new Error("The disk is full.")
      },
      rejects: async () => {
        throw new Error("The disk is full.")
      }
    }
    for (const [name, onEvent] of Object.entries(failures)) {
      const lines: Array<string> = []
      await using agent = outlast({ models: [provider.model], onEvent, log: (line) => lines.push(line) })
      await generateText({ ...agent.with(), prompt: "Hi" })
      assert.include(lines, "[outlast] onEvent failed: Error: The disk is full.", name)
      await using silent = outlast({ models: [provider.model], onEvent, log: onEvent })
      await generateText({ ...silent.with(), prompt: "Hi" })
    }
  })

  it("show what is out and why, and a reset brings it back", async () => {
    await using dead = await played(overloaded)
    await using provider = await played({ answers: [{ text: "Hello." }] }, "openai")
    const lines: Array<string> = []
    await using agent = outlast({
      models: [dead.model, provider.model],
      log: (line) => void lines.push(line)
    })
    await generateText({ ...agent.with(), prompt: "Hi" })
    const [first, second] = await agent.targets()
    assert.strictEqual(first?.state === "ready", false)
    assert.include(first?.message, "401")
    assert.strictEqual(second?.state, "ready")
    assert.isAbove(Number(second?.lastSuccessAt), 0)
    await agent.reset(first?.id)
    assert.strictEqual((await agent.targets())[0]?.state, "ready")
    assert.isAbove(lines.length, 0)
    assert.isTrue(lines.every((line) => line.startsWith("[outlast] ") && !line.includes("\n")))
  })
})

describe("a closed agent", () => {
  it("says so, whatever it is asked", async () => {
    await using provider = await played({ answers: [{ text: "Hello." }] })
    const agent = outlast({ models: [provider.model], compaction: true, log: false })
    await generateText({ ...agent.with(), prompt: "Hi" })
    await agent.close()
    const asked = [agent.targets(), agent.reset(), generateText({ ...agent.with(), prompt: "Hi" })]
    for (const answer of asked) {
      const error = await caught(answer)
      assert.instanceOf(error, Error)
      assert.include(error.message, "was disposed of")
    }
  })
})
