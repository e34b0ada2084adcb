import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { FaultPlan } from "@outlast/testing"

const hello: FaultPlan.Request = {
  provider: "anthropic",
  model: "m",
  key: "k",
  streaming: true,
  messages: [{ role: "user", text: "hello" }],
  maxOutputTokens: undefined,
  inputTokens: 7
}

const said = (text: string, toolCalls: ReadonlyArray<string> = []): FaultPlan.Message => ({
  role: "assistant",
  text,
  toolCalls: toolCalls.map((id) => ({ id, name: "add", params: {} }))
})
const user = (text: string): FaultPlan.Message => ({ role: "user", text })

/** Returns the replies to these requests, in order. */
const run = (plan: FaultPlan.FaultPlan, requests: ReadonlyArray<Partial<FaultPlan.Request>>) => {
  let state = FaultPlan.initial
  return requests.map((request) => {
    const [reply, after] = FaultPlan.next(plan, state, { ...hello, ...request })
    state = after
    return reply
  })
}

const faults = (plan: FaultPlan.FaultPlan, requests: ReadonlyArray<Partial<FaultPlan.Request>>) =>
  run(plan, requests).map(({ fault }) => (fault?.type === "status" ? fault.status : fault?.type))

const textOf = (reply: FaultPlan.Reply | undefined) =>
  reply?.type === "speech" ? reply.deltas.map(({ text }) => text).join("") : reply?.type

const status = (code: number): FaultPlan.Fault => ({ type: "status", status: code })

describe("faults", () => {
  it("apply once each, in order, and then the answers are normal", () => {
    const plan = { faults: [{ fault: status(429) }, { fault: status(529) }], answers: [{ text: "a" }] }
    assert.deepStrictEqual(faults(plan, [{}, {}, {}]), [429, 529, undefined])
  })
  it("can apply several times, or always", () => {
    const plan = {
      faults: [
        { times: 2, fault: status(429) },
        { times: "always", fault: status(529) }
      ] as const,
      answers: []
    }
    assert.deepStrictEqual(faults(plan, [{}, {}, {}, {}]), [429, 429, 529, 529])
  })
  it("apply only to requests that match", () => {
    const plan: FaultPlan.FaultPlan = {
      faults: [
        { when: { provider: "openai" }, fault: status(500) },
        { when: { model: "n" }, fault: status(501) },
        { when: { key: "x" }, fault: status(502) },
        { when: { streaming: false }, fault: status(503) }
      ],
      answers: [{ text: "a" }]
    }
    const requests = [
      {},
      { streaming: false },
      { key: "x" },
      { model: "n" },
      { provider: "openai" },
      { key: "x" }
    ]
    assert.deepStrictEqual(faults(plan, requests), [undefined, 503, 502, 501, 500, undefined])
  })
  it("can let requests through first", () => {
    const plan = {
      faults: [{ skip: 2, fault: status(429) }, { fault: status(500) }],
      answers: [{ text: "a" }]
    }
    assert.deepStrictEqual(faults(plan, [{}, {}, {}, {}]), [500, undefined, 429, undefined])
  })
})

describe("an answer", () => {
  const plan: FaultPlan.FaultPlan = {
    answers: [
      { text: "one two three", toolCalls: [{ name: "add", params: { a: 1 } }] },
      { reasoning: "hm", text: "four five six" },
      { text: "seven" }
    ]
  }
  const ask = (...messages: ReadonlyArray<FaultPlan.Message>) => {
    const [reply] = run(plan, [{ messages }])
    return [reply?.turn, textOf(reply)]
  }
  const result: FaultPlan.Message = { role: "tool", id: "c", text: "5" }

  it("belongs to a turn, and is the same when the request is repeated", () => {
    const first = [0, `one two three{"a":1}`]
    assert.deepStrictEqual(ask(user("hi")), first)
    assert.deepStrictEqual(ask(user("hi")), first)
    assert.deepStrictEqual(ask(user("hi"), said("one two three", ["c"]), result), [1, "hmfour five six"])
    const [one, two] = run(plan, [{}, {}])
    assert.deepStrictEqual(one, two)
  })
  it("gives its rest to a continuation and to a prefill", () => {
    const before = [user("hi"), said("one two three", ["c"]), result]
    assert.deepStrictEqual(ask(...before, said("four fi"), user("go on")), [1, "ve six"])
    assert.deepStrictEqual(ask(...before, said("four fi")), [1, "ve six"])
    assert.deepStrictEqual(ask(...before, said("four fi"), user("go on"), said("ve"), user("on")), [
      1,
      " six"
    ])
    assert.deepStrictEqual(ask(...before, said("four five six"), user("thanks")), [2, "seven"])
  })
  it("still has its tool calls when only its text was sent", () => {
    assert.deepStrictEqual(ask(user("hi"), said("one two three"), user("go on")), [0, `{"a":1}`])
  })
  it("treats two consecutive assistant messages as one turn", () => {
    assert.deepStrictEqual(ask(user("hi"), said("x"), said("y"), user("ho")), [1, "hmfour five six"])
  })
  it("gives an error with advice when it is missing", () => {
    const messages = [1, 2, 3].flatMap((n) => [user("a"), said(`x${n}`)])
    const [reply] = run(plan, [{ messages }])
    assert.strictEqual(reply?.type === "respond" ? reply.status : 0, 400)
    assert.match(
      reply?.type === "respond" ? (reply.error?.message ?? "") : "",
      /has run out: it has 3 answers, and this request asks for answer 4\. Add a step/
    )
  })
  it("can come from a function, which gets the conversation up to the turn", () => {
    const seen: Array<FaultPlan.Conversation> = []
    const answers = (conversation: FaultPlan.Conversation) => {
      seen.push(conversation)
      const last = conversation.messages.at(-1)
      return { text: `you said ${last?.text}` }
    }
    const messages = [user("a b c"), said("you said a"), user("go on")]
    assert.deepStrictEqual(run({ answers }, [{ messages }]).map(textOf), [" b c"])
    assert.deepStrictEqual(seen.at(-1), { turn: 0, messages: [user("a b c")] })
    const again = [...messages, said(" b"), user("and on")]
    assert.deepStrictEqual(run({ answers }, [{ messages: again }]).map(textOf), [" c"])
    assert.deepStrictEqual(seen.at(-1), { turn: 0, messages: [user("a b c")] })
  })
  it("can have deltas of a number of characters, and splits no character", () => {
    const [reply] = run({ answers: [{ reasoning: "ab🚀d", text: "好的 x", chunk: 3 }] }, [{}])
    const deltas = reply?.type === "speech" ? reply.deltas.map(({ type, text }) => `${type} ${text}`) : []
    assert.deepStrictEqual(deltas, ["reasoning ab🚀", "reasoning d", "text 好的 ", "text x"])
  })
  it("has different tool call ids in different conversations", () => {
    const ids = run(plan, [{}, { messages: [user("other")] }]).map((reply) =>
      reply.type === "speech" ? reply.toolCalls[0]?.id : undefined
    )
    assert.notStrictEqual(ids[0], ids[1])
    assert.match(ids[0] ?? "", /^[a-zA-Z0-9_-]{1,40}$/)
  })
})

describe("effects of faults", () => {
  const answers = [{ text: "a b c d", toolCalls: [{ name: "add", params: { a: 1 } }] }]
  const struck = (fault: FaultPlan.Fault, request: Partial<FaultPlan.Request> = {}) => {
    const [reply] = run({ faults: [{ fault }], answers }, [request])
    return reply?.type === "speech" ? [reply.deltas.length, reply.end] : reply
  }
  const without = (fault: FaultPlan.Fault, request: Partial<FaultPlan.Request> = {}) => {
    const [reply] = run({ faults: [{ fault }], answers }, [request])
    return reply?.type === "nothing" ? [reply.turn, reply.reset] : reply?.type
  }

  it("break off after a number of deltas, or after the last", () => {
    assert.deepStrictEqual(struck({ type: "cut", after: 2 }), [2, { type: "cut" }])
    assert.deepStrictEqual(struck({ type: "reset", after: 99 }), [5, { type: "reset" }])
    assert.deepStrictEqual(struck({ type: "stall", after: 0 }), [0, { type: "stall", keepAlive: undefined }])
    const error = { type: "overloaded_error", message: "Overloaded" }
    assert.deepStrictEqual(struck({ type: "stream-error", after: 1, error }), [1, { type: "error", error }])
  })
  it("send nothing at all without `after`", () => {
    assert.deepStrictEqual(without({ type: "reset" }), [0, true])
    assert.deepStrictEqual(without({ type: "stall" }), [0, false])
    assert.deepStrictEqual(without({ type: "stall", keepAlive: 5 }, { streaming: false }), [0, false])
    assert.deepStrictEqual(struck({ type: "stall", keepAlive: 5 }), [0, { type: "stall", keepAlive: 5 }])
  })
  it("turn a stream's error into a status for a request without streaming", () => {
    const error = { type: "overloaded_error", message: "Overloaded" }
    assert.deepInclude(struck({ type: "stream-error", after: 1, error }, { streaming: false }), {
      type: "respond",
      status: 529,
      error
    })
    // Only Anthropic has a separate status for overload.
    for (const provider of ["openai", "google"]) {
      const request = { streaming: false, provider }
      assert.deepInclude(struck({ type: "stream-error", after: 1, error }, request), { status: 503 })
    }
  })
  it("repeat the end of the cut text after a remark, when the answer is continued", () => {
    const continuing = (fault: FaultPlan.Fault) =>
      run({ faults: [{ fault }], answers: [{ text: "one two three" }] }, [
        { messages: [user("hi"), said("one two"), user("go on")] }
      ]).map((reply) => (reply.type === "speech" ? reply.deltas.map(({ text }) => text) : []))
    assert.deepStrictEqual(continuing({ type: "repeat", characters: 3, remark: "Sure: " }), [
      ["Sure: two", " three"]
    ])
    assert.deepStrictEqual(continuing({ type: "repeat", characters: 99 }), [["one two", " three"]])
    assert.deepStrictEqual(continuing({ type: "repeat", characters: 0 }), [[" three"]])
    assert.deepStrictEqual(struck({ type: "repeat", characters: 3 }), [
      5,
      { type: "finish", reason: "tool-calls" }
    ])
  })
  it("report a false finish reason, and can end early", () => {
    assert.deepStrictEqual(struck({ type: "finish", reason: "stop" }), [
      5,
      { type: "finish", reason: "stop" }
    ])
    assert.deepStrictEqual(struck({ type: "finish", reason: "length", after: 2 }), [
      2,
      { type: "finish", reason: "length" }
    ])
  })
  it("do not happen when the output limit comes first", () => {
    const length = { type: "finish", reason: "length" } as const
    assert.deepStrictEqual(struck({ type: "cut", after: 3 }, { maxOutputTokens: 2 }), [2, length])
    assert.deepStrictEqual(struck({ type: "cut", after: 2 }, { maxOutputTokens: 2 }), [2, { type: "cut" }])
    assert.deepStrictEqual(struck({ type: "slow", delay: 5 }, { maxOutputTokens: 5 }), [
      5,
      { type: "finish", reason: "tool-calls" }
    ])
  })
})

describe("invariants for all plans", () => {
  const After = Schema.Natural.check(Schema.isLessThanOrEqualTo(30))
  const plans = { text: Schema.String, after: After, again: After }

  it.effect.prop("the cut part and the rest make up the answer", { plan: Schema.Struct(plans) }, ({ plan }) =>
    Effect.sync(() => {
      const { text, after, again } = plan
      const answers = [{ text }, { text: "next" }]
      const cuts = [after, again].map((n): FaultPlan.Step => ({ fault: { type: "cut", after: n } }))
      let state = FaultPlan.initial
      let heard = ""
      for (let attempt = 0; attempt < 3; attempt++) {
        const partial = heard === "" ? [] : [said(heard), user("go on")]
        const messages = [...hello.messages, ...partial]
        const [reply, next] = FaultPlan.next({ faults: cuts, answers }, state, { ...hello, messages })
        state = next
        heard += textOf(reply)
        if (heard === text) break
      }
      assert.strictEqual(heard, text)
    })
  )

  it.effect.prop(
    "every step strikes as often as it says, and no state changes another plan",
    { steps: Schema.Array(Schema.Struct({ skip: After, times: After })) },
    ({ steps }) =>
      Effect.sync(() => {
        const plan: FaultPlan.FaultPlan = {
          faults: steps.map(({ skip, times }, i) => ({
            skip,
            times: times + 1,
            fault: status(400 + (i % 200))
          })),
          answers: [{ text: "a" }]
        }
        const total = steps.reduce((sum, { skip, times }) => sum + skip + times + 1, 0)
        const struck = faults(
          plan,
          Array.from({ length: total }, () => ({}))
        ).filter((fault) => fault !== undefined)
        assert.strictEqual(
          struck.length,
          steps.reduce((sum, { times }) => sum + times + 1, 0)
        )
        assert.deepStrictEqual(faults(plan, [{}]), faults(plan, [{}]))
      })
  )

  it.effect.prop("plans survive a round trip through JSON", { plan: FaultPlan.FaultPlan }, ({ plan }) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(
        yield* FaultPlan.decode(JSON.parse(JSON.stringify(plan))),
        JSON.parse(JSON.stringify(plan))
      )
    })
  )
})

describe("decode", () => {
  it.effect("reads a plan", () =>
    Effect.gen(function* () {
      const json = {
        faults: [{ when: { streaming: true }, times: "always", fault: { type: "stall", keepAlive: 500 } }],
        answers: [{ text: "a", usage: { input: 3 } }]
      }
      assert.deepStrictEqual(yield* FaultPlan.decode(json), json as FaultPlan.FaultPlan)
    })
  )
  it.effect("reports every problem with its path and the expected value", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(
        FaultPlan.decode({
          faults: [{ fault: { type: "explode" } }, { times: 0, fault: { type: "status", status: 200 } }],
          answers: [{ txt: "a" }]
        })
      )
      assert.strictEqual(error._tag, "FaultPlanError")
      assert.strictEqual(
        error.message,
        [
          "This is not a fault plan.",
          "Expected a fault: status, reset, cut, stall, stream-error, slow, garbage, finish or repeat",
          `  at ["faults"][0]["fault"]`,
          "Expected a value greater than 0",
          `  at ["faults"][1]["times"]`,
          "Expected a value between 400 and 599",
          `  at ["faults"][1]["fault"]["status"]`,
          "Expected no excess property",
          `  at ["answers"][0]["txt"]`
        ].join("\n")
      )
    })
  )
})
