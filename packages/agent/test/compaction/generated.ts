/**
 * Arbitrary legal agent conversations with everything that compaction must keep whole. Sizes are small, like the
 * windows.
 */
import * as fc from "fast-check"
import { Prompt } from "effect/ai"
import { Marks } from "@outlast/agent/compaction"

const words = (min: number, max: number) =>
  fc
    .tuple(fc.integer({ min, max }), fc.constantFrom("alpha", "beta", "naïve", "東京", "x=1;"))
    .map(([n, word]) => Array.from({ length: n }, () => word).join(" "))

const pinned = <M extends Prompt.Message>(message: M, pin: boolean): M => (pin ? Marks.pin(message) : message)
const rarely = fc.integer({ min: 0, max: 11 }).map((n) => n === 0)
const text = (text: string) => Prompt.makePart("text", { text })

const user = fc
  .record({ said: words(1, 120), pin: rarely })
  .map(({ said, pin }) => [pinned(Prompt.makeMessage("user", { content: [text(said)] }), pin)])

const thinking = (signature: string) =>
  Prompt.makePart("reasoning", { text: "let me think about it", options: { messages: { signature } } })

const answer = fc
  .record({ said: words(1, 80), thinks: fc.boolean(), pin: rarely })
  .map(({ said, thinks, pin }) => [
    pinned(
      Prompt.makeMessage("assistant", { content: [...(thinks ? [thinking("s")] : []), text(said)] }),
      pin
    )
  ])

/** Calls and their results: in one message or in one each, in any order. */
const turn = fc
  .record({
    thinks: fc.boolean(),
    says: fc.boolean(),
    calls: fc.array(
      fc.record({
        tool: fc.constantFrom("search", "read_file"),
        argument: words(1, 150),
        result: words(1, 300)
      }),
      { minLength: 1, maxLength: 3 }
    ),
    apart: fc.boolean(),
    reversed: fc.boolean(),
    signed: rarely,
    pin: rarely
  })
  .map(
    ({ thinks, says, calls, apart, reversed, signed, pin }) =>
      (n: number): ReadonlyArray<Prompt.Message> => {
        const id = (i: number) => `call_${n}_${i}`
        const results = calls.map(({ tool, result }, i) =>
          Prompt.makePart("tool-result", {
            id: id(i),
            name: tool,
            result: i === 0 ? result : { text: result },
            isFailure: false,
            providerExecuted: false
          })
        )
        if (reversed) results.reverse()
        return [
          pinned(
            Prompt.makeMessage("assistant", {
              content: [
                ...(thinks ? [thinking(`s${n}`)] : []),
                ...(says ? [text("I look.")] : []),
                ...calls.map(({ tool, argument }, i) =>
                  Prompt.makePart("tool-call", {
                    id: id(i),
                    name: tool,
                    params: { path: `src/${n}.ts`, content: argument },
                    providerExecuted: false,
                    options: signed ? { messages: { signature: "of the call" } } : {}
                  })
                )
              ]
            }),
            pin
          ),
          ...(apart
            ? results.map((part) => Prompt.makeMessage("tool", { content: [part] }))
            : [Prompt.makeMessage("tool", { content: results })])
        ]
      }
  )

const step = fc.oneof(
  { weight: 2, arbitrary: user.map((messages) => () => messages) },
  { weight: 2, arbitrary: answer.map((messages) => () => messages) },
  { weight: 4, arbitrary: turn }
)

/** Steps with ids numbered from `from`. The list may end anywhere except before results. */
export const steps = (from: number, maxLength: number): fc.Arbitrary<ReadonlyArray<Prompt.Message>> =>
  fc.array(step, { minLength: 1, maxLength }).map((all) => all.flatMap((make, i) => make(from + i)))

export const conversation: fc.Arbitrary<Prompt.Prompt> = fc
  .record({ system: fc.boolean(), greeted: rarely, goal: words(1, 40), rest: steps(0, 30) })
  .map(({ system, greeted, goal, rest }) =>
    Prompt.fromMessages([
      ...(system ? [Prompt.makeMessage("system", { content: "Be kind." })] : []),
      ...(greeted ? [Prompt.makeMessage("assistant", { content: [text("Hello!")] })] : []),
      Prompt.makeMessage("user", { content: [text(`The goal: ${goal}`)] }),
      ...rest
    ])
  )
