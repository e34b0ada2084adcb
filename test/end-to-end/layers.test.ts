/** The layers of CodeBuddy and the onion of claw0, each in one run over real HTTP with real clients. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Prompt, Tool, Toolkit } from "effect/ai"
import { Presets } from "@outlast/agent"
import type { ResilienceEvents } from "@outlast/resilience"
import { key, overHttp, place } from "../scenarios/Scenario.ts"
import { status } from "../scenarios/programs.ts"

const Kit = Toolkit.make(
  Tool.make("look", { parameters: Schema.Struct({ page: Schema.Finite }), success: Schema.String })
)

/** Pages with different texts, and the number of pages that were read. */
const library = () => {
  const read: Array<number> = []
  const layer = Kit.toLayer({
    look: ({ page }) =>
      Effect.sync(() => {
        read.push(page)
        return `Page ${page}. ${`The river of page ${page} is ${page * 7} km long. `.repeat(20)}`
      })
  })
  return { read, layer }
}

const recording = () => {
  const events: Array<ResilienceEvents.ResilienceEvent> = []
  const tags = () => new Set(events.map(({ _tag }) => _tag))
  return { tags, heard: (event: ResilienceEvents.ResilienceEvent) => void events.push(event) }
}

describe("over HTTP", () => {
  it.live("the four layers of CodeBuddy retry, switch, compact and stop one run", () =>
    Effect.gen(function* () {
      const { read, layer } = library()
      const { tags, heard } = recording()
      const story = yield* overHttp({
        chain: [
          place("anthropic", "A"),
          { ...place("openai", "B"), info: { contextWindow: 10_000, maxOutputTokens: 1_000 } }
        ],
        plan: {
          faults: [{ when: key("A"), times: "always", fault: status(429) }],
          // Ten pages a turn, without an end.
          answers: ({ messages, turn }) =>
            messages[0]?.role === "system"
              ? { text: "## Goal\nRead every page about rivers." }
              : {
                  text: `Turn ${turn}.`,
                  toolCalls: Array.from({ length: 10 }, () => ({
                    name: "look",
                    params: { page: read.length + 1 }
                  }))
                }
        },
        layer: (chain) => Presets.codebuddy.layer(chain),
        program: Presets.codebuddy
          .agent({ prompt: "Read every page.", toolkit: Kit }, { maxToolInvocations: 50 })
          .pipe(Effect.provide(layer)),
        heard
      })
      // Layer 2 retries after 1.5 s and 3 s, then layer 1 switches to the next provider.
      assert.deepStrictEqual(story.asked.slice(0, 4), ["A", "A", "A", "B"])
      assert.deepStrictEqual(
        story.lines.filter((line) => /Waiting|Switched/.test(line)),
        ["CallWaiting A backoff +1500", "CallWaiting A backoff +3000", "TargetSwitched B RateLimit"]
      )
      assert.strictEqual(story.took, 4_500)
      // Layer 4 compacts the pages that do not fit, and layer 3 stops the run at its limit.
      assert.includeMembers([...tags()], ["CooldownOpened", "ContextCompacted", "GuardStopped"])
      assert.lengthOf(read, 50)
      assert.include(JSON.stringify(story.result), "Forced stop: reached maximum of 50 tool invocations.")
      // Only the cooldown keeps the first provider away from the later calls.
      assert.notInclude(story.asked.slice(4), "A")
    })
  )

  it.live("the onion of claw0 rotates its keys, compacts, and runs its tools", () =>
    Effect.gen(function* () {
      const { read, layer } = library()
      const { tags, heard } = recording()
      const long = Prompt.make([
        ...Array.from({ length: 24 }, (_, n) => ({
          role: n % 2 === 0 ? ("user" as const) : ("assistant" as const),
          content: `${n} ${"word ".repeat(250)}`
        })),
        { role: "user", content: "Read page 7." }
      ])
      const story = yield* overHttp({
        chain: [{ ...place("anthropic", "MAIN", "BACKUP", "EMERGENCY"), info: { contextWindow: 20_000 } }],
        plan: {
          faults: [
            { when: key("MAIN"), fault: status(429) },
            { when: key("BACKUP"), fault: status(413) }
          ],
          answers: ({ messages }) =>
            messages[0]?.role === "system"
              ? { text: "## Goal\nRead page 7." }
              : messages.at(-1)?.role === "tool"
                ? { text: "It is 49 km long." }
                : { toolCalls: [{ name: "look", params: { page: 7 } }] }
        },
        layer: (chain) => Presets.claw0.layer(chain),
        program: Presets.claw0.agent({ prompt: long, toolkit: Kit }).pipe(Effect.provide(layer)),
        heard
      })
      // The first key is limited. The second one is too small, and asked again with the compacted conversation.
      assert.deepStrictEqual(story.asked.slice(0, 2), ["MAIN", "BACKUP"])
      assert.notInclude(story.asked.slice(2), "MAIN")
      assert.notInclude(story.asked, "EMERGENCY")
      assert.includeMembers([...tags()], ["CooldownOpened", "CallCompacting", "ContextCompacted"])
      assert.deepStrictEqual(read, [7])
      assert.deepInclude(story.result, { status: "completed", text: "It is 49 km long.", turns: 2 })
    })
  )
})
