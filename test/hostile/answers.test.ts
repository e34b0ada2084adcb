/** Answers of an unusual form whose meaning is clear, in each wire format, over raw servers. */
import { assert, describe, it } from "@effect/vitest"
import type { Outcome } from "#agent/loop/Outcome"
import { Agent, Failover, Outlast, RecoveryPolicy } from "@outlast/agent"
import { toAiSdk } from "@outlast/providers"
import { ResilienceEvents, Warnings } from "@outlast/resilience"
import { Effect, Layer, Schema, Stream } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import type { Vendor, Way } from "./Asked.ts"
import { asked, policy, reasonOf, vendors, ways } from "./Asked.ts"
import * as RawServer from "./RawServer.ts"
import * as Replies from "./Replies.ts"

const { chat, claude } = RawServer

/** A body, and the events of the same answer. */
const either =
  (whole: object, events: ReadonlyArray<object | string>): Replies.Send =>
  (response, hit) =>
    Replies.isStream(hit) ? RawServer.events(response, events) : RawServer.json(response, 200, whole)

const usage = { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 }

/** An answer of Chat Completions with this message, finish and further fields of its choice. */
const completion = (message: object, finish: unknown, choice: object = {}, counts: unknown = usage) =>
  either(
    {
      id: "c",
      created: 1,
      model: "m",
      choices: [{ index: 0, message, finish_reason: finish, ...choice }],
      usage: counts
    },
    [
      chat.delta({ role: "assistant", content: "" }),
      chat.delta(message),
      { ...chat.delta({}), choices: [{ index: 0, delta: {}, finish_reason: finish, ...choice }] },
      { ...chat.usage(5, 7), usage: counts },
      chat.done
    ]
  )

const block = { type: "tool_use", id: "toolu_1", name: "pay", input: { euros: 1 } }

const message = (
  content: ReadonlyArray<object & { readonly type: string }>,
  stop: string | null,
  counts: object = {}
) =>
  either(
    {
      ...claude.start.message,
      content,
      stop_reason: stop,
      usage: { input_tokens: 5, output_tokens: 7, ...counts }
    },
    [
      claude.start,
      ...content.flatMap((each, index) =>
        each.type === "tool_use"
          ? [
              claude.block(index, { ...each, input: {} }),
              claude.json(index, JSON.stringify(block.input)),
              claude.stop(index)
            ]
          : [
              claude.block(index),
              claude.text(index, "text" in each ? String(each.text) : ""),
              claude.stop(index)
            ]
      ),
      {
        type: "message_delta",
        delta: { stop_reason: stop, stop_sequence: null },
        usage: { output_tokens: 7, ...counts }
      },
      claude.end
    ]
  )

const functionCall = {
  type: "function_call",
  id: "fc_1",
  call_id: "call_1",
  name: "pay",
  arguments: '{"euros":1}',
  status: "completed"
}

const textItem = (text: string) => ({
  type: "message",
  id: "msg_1",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text, annotations: [] }]
})

const response = (items: ReadonlyArray<object>, fields: object = {}) => {
  const whole = {
    id: "resp_1",
    object: "response",
    created_at: 1,
    model: "m",
    status: "completed",
    incomplete_details: null,
    output: items,
    usage: { input_tokens: 5, output_tokens: 7, total_tokens: 12 },
    ...fields
  }
  return either(whole, [
    { type: "response.created", response: { ...whole, output: [], usage: null } },
    ...items.flatMap((item: any, index) => [
      {
        type: "response.output_item.added",
        output_index: index,
        item: { ...item, ...("arguments" in item ? { arguments: "" } : {}) }
      },
      ...(item.type === "message"
        ? [
            {
              type: "response.output_text.delta",
              item_id: item.id,
              output_index: index,
              content_index: 0,
              delta: item.content[0].text
            }
          ]
        : []),
      { type: "response.output_item.done", output_index: index, item }
    ]),
    { type: "response.completed", response: whole }
  ])
}

const gemini = (
  parts: ReadonlyArray<object>,
  finishReason: string | undefined,
  usageMetadata: unknown = { promptTokenCount: 5, candidatesTokenCount: 7 }
) => {
  const body = { candidates: [{ content: { role: "model", parts }, finishReason, index: 0 }], usageMetadata }
  return either(body, [body])
}

/** A server that gives these answers in turn, and the last one from then on. */
const serving = (...sends: ReadonlyArray<Replies.Send>) =>
  RawServer.start((response, hit, n) => sends[Math.min(n, sends.length - 1)]?.(response, hit))

const good: { readonly [V in Vendor]: Replies.Send } = {
  anthropic: Replies.send.anthropic({ text: "Good.", end: "end_turn", tokens: 2 }),
  chat: Replies.send.chat({ text: "Good.", end: "stop", tokens: 2 }),
  compatible: Replies.send.compatible({ text: "Good.", end: "stop", tokens: 2 }),
  responses: Replies.send.responses({ text: "Good.", end: "stop", tokens: 2 }),
  google: Replies.send.google({ text: "Good.", end: "STOP", tokens: 2 })
}

// -----------------------------------------------------------------------------
// The window is full
// -----------------------------------------------------------------------------

const full: ReadonlyArray<readonly [Vendor, string]> = [
  ["anthropic", "model_context_window_exceeded"],
  ["chat", "model_context_window_exceeded"],
  ["compatible", "model_length"],
  ["compatible", "context_length_exceeded"],
  ["responses", "context_window_exceeded"],
  ["google", "MODEL_CONTEXT_WINDOW_EXCEEDED"]
]

const half = "The first half of the answer, which fills the window"

describe("an answer that fills the window of the model", () => {
  for (const [vendor, end] of full) {
    const cut = Replies.send[vendor]({ text: half, end, tokens: 900 })
    for (const way of ways) {
      it.live(`is delivered as cut, and is not continued at the same window: ${vendor} ${end}, ${way}`, () =>
        Effect.gen(function* () {
          const server = yield* serving(cut)
          const came = yield* asked(way, [vendors[vendor](server.url)])
          assert.deepStrictEqual([came.text, came.finish], [half, "length"])
          assert.deepStrictEqual(came.failures, ["ContextOverflow"])
          assert.strictEqual(server.hits.length, 1)
        })
      )
    }
  }

  for (const way of ["request", "stream"] as const) {
    it.live(`is continued once the conversation is shorter: ${way}`, () =>
      Effect.gen(function* () {
        const server = yield* serving(
          Replies.send.anthropic({ text: half, end: "model_context_window_exceeded", tokens: 900 }),
          Replies.send.anthropic({ text: " and the rest.", end: "end_turn", tokens: 4 })
        )
        const layer = Failover.layer([vendors.anthropic(server.url)({})], {
          policy,
          compact: () => Effect.succeed(Prompt.make("short"))
        }).pipe(Layer.provideMerge(Warnings.layerOff))
        const prompt = "long ".repeat(2_000)
        const text = yield* (
          way === "request"
            ? Effect.map(LanguageModel.generateText({ prompt }), (answer) => answer.text)
            : LanguageModel.streamText({ prompt }).pipe(
                Stream.runFold(
                  () => "",
                  (all, part) => (part.type === "text-delta" ? all + part.delta : all)
                )
              )
        ).pipe(Effect.provide(layer), Effect.orDie)
        assert.strictEqual(text, `${half} and the rest.`)
        assert.strictEqual(server.hits.length, 2)
        assert.notInclude(JSON.stringify(server.hits[1]?.body), "long long")
      })
    )
  }

  for (const way of ["run", "stream"] as const) {
    it.live(`is continued by an agent that compacts: Agent.${way}`, () =>
      Effect.gen(function* () {
        const server = yield* serving(
          Replies.send.anthropic({ text: half, end: "model_context_window_exceeded", tokens: 900 }),
          Replies.send.anthropic({ text: " and the rest.", end: "end_turn", tokens: 4 })
        )
        const layer = Failover.layer(
          [vendors.anthropic(server.url)({ contextWindow: 4_000, wholeAnswers: "request" } as never)],
          {
            policy
          }
        ).pipe(Layer.provideMerge(Warnings.layerOff))
        const prompt = Prompt.make([
          ...Array.from({ length: 6 }, (_, i) => [
            { role: "user" as const, content: `${i} ${"question ".repeat(60)}` },
            { role: "assistant" as const, content: `${i} ${"answer ".repeat(60)}` }
          ]).flat(),
          { role: "user" as const, content: "Go on." }
        ])
        const options = { prompt, compaction: { summarise: false } }
        const outcome = yield* (
          way === "run"
            ? Agent.run(options)
            : Effect.map(Stream.runCollect(Agent.stream(options)), (parts) => {
                const last: any = parts.at(-1)
                return last.outcome as Outcome
              })
        ).pipe(Effect.provide(layer), Effect.orDie)
        assert.deepStrictEqual([outcome.status, outcome.text], ["completed", `${half} and the rest.`])
        assert.strictEqual(server.hits.length, 2)
        assert.isBelow(
          JSON.stringify(server.hits[1]?.body).length,
          JSON.stringify(server.hits[0]?.body).length
        )
      })
    )
  }
})

// -----------------------------------------------------------------------------
// A second status
// -----------------------------------------------------------------------------

describe("a second status that is more precise than the finish reason", () => {
  const rest = Replies.send.compatible({ text: " and the rest.", end: "stop", tokens: 900 })
  for (const [name, choice] of [
    ["native_finish_reason MAX_TOKENS", { native_finish_reason: "MAX_TOKENS" }],
    ["native_finish_reason max_output_tokens", { native_finish_reason: "max_output_tokens" }],
    ["finish_details", { finish_details: { type: "max_tokens" } }],
    ["done_reason", { done_reason: "length" }]
  ] as const) {
    for (const vendor of ["chat", "compatible"] as const) {
      it.live(`continues half a sentence: ${name}, ${vendor}`, () =>
        Effect.gen(function* () {
          for (const way of ways) {
            const server = yield* serving(completion({ content: half }, "stop", choice), rest)
            const came = yield* asked(way, [vendors[vendor](server.url)])
            assert.deepStrictEqual([came.text, came.finish], [`${half} and the rest.`, "stop"], way)
            assert.strictEqual(server.hits.length, 2)
          }
        })
      )
    }
  }

  it.live("says that the window is full, or that the content was refused", () =>
    Effect.gen(function* () {
      for (const way of ways) {
        for (const [native, reason, finish] of [
          ["model_context_window_exceeded", "length", "length"],
          ["SAFETY", "stop", undefined]
        ] as const) {
          const server = yield* serving(
            completion({ content: half }, reason, { native_finish_reason: native })
          )
          const came = yield* asked(way, [vendors.compatible(server.url)])
          assert.strictEqual(came.finish, finish, `${way} ${native}`)
          assert.strictEqual(reasonOf(came), finish === undefined ? "ContentPolicy" : undefined)
          assert.strictEqual(server.hits.length, 1)
        }
      }
    })
  )

  it.live("changes nothing when it says the same in other words", () =>
    Effect.gen(function* () {
      for (const way of ways) {
        const server = yield* serving(
          completion({ content: half }, "stop", { native_finish_reason: "end_turn" })
        )
        const came = yield* asked(way, [vendors.compatible(server.url)])
        assert.deepStrictEqual([came.text, came.finish, server.hits.length], [half, "stop", 1])
      }
    })
  )

  it.live("marks an incomplete answer of Responses that gives no reason", () =>
    Effect.gen(function* () {
      for (const way of ways) {
        for (const [item, fields] of [
          [textItem(half), { status: "incomplete" }],
          [{ ...textItem(half), status: "incomplete" }, {}]
        ] as const) {
          const server = yield* serving(response([item], fields))
          const came = yield* asked(way, [vendors.responses(server.url)])
          assert.deepStrictEqual([came.text, came.finish], [half, "other"])
        }
      }
    })
  )
})

// -----------------------------------------------------------------------------
// Calls
// -----------------------------------------------------------------------------

const Pay = Tool.make("pay", { parameters: Schema.Struct({ euros: Schema.Finite }), success: Schema.String })
const Kit = Toolkit.make(Pay)

const surfaces = ["run", "stream", "whole"] as const

/** A run that pays, and what its tool was called with. */
const paying = (surface: (typeof surfaces)[number], vendor: Vendor, url: string) =>
  Effect.gen(function* () {
    const paid: Array<number> = []
    const events: Array<string> = []
    const info = surface === "whole" ? ({ wholeAnswers: "request" } as const) : {}
    const options = { prompt: "Pay.", toolkit: Kit }
    const outcome = yield* (
      surface === "stream"
        ? Effect.map(Stream.runCollect(Agent.stream(options)), (parts) => {
            const last: any = parts.at(-1)
            return last.outcome as Outcome
          })
        : Agent.run(options)
    ).pipe(
      Effect.provide(Kit.toLayer({ pay: ({ euros }) => Effect.sync(() => (paid.push(euros), "paid")) })),
      Effect.provide(
        Failover.layer([vendors[vendor](url)(info)], { policy }).pipe(
          Layer.provideMerge(
            ResilienceEvents.layerHandler((event) => Effect.sync(() => void events.push(event._tag)))
          ),
          Layer.provideMerge(Warnings.layerOff)
        )
      ),
      Effect.orDie
    )
    return { paid, events, outcome }
  })

const call = (args: unknown, id: string | undefined = "call_1") => ({
  index: 0,
  ...(id === undefined ? {} : { id }),
  type: "function",
  function: { name: "pay", arguments: args }
})
const text = '{"euros":1}'

/** A call in these events of Messages, and the same call in a complete body. */
const started = (events: ReadonlyArray<object>) =>
  either({ ...claude.start.message, content: [block], stop_reason: "tool_use" }, [
    claude.start,
    ...events,
    claude.delta("tool_use"),
    claude.end
  ])

const responded = {
  id: "resp_1",
  object: "response",
  created_at: 1,
  model: "m",
  status: "completed",
  incomplete_details: null,
  output: [],
  usage: { input_tokens: 5, output_tokens: 7, total_tokens: 12 }
}

/** Answers with one complete call, `[vendor, what, answer, only complete bodies]`. */
const oneCall: ReadonlyArray<readonly [Vendor, string, Replies.Send, boolean?]> = [
  ...(["chat", "compatible"] as const).flatMap(
    (vendor): ReadonlyArray<readonly [Vendor, string, Replies.Send, boolean?]> => [
      [
        vendor,
        "a legacy function_call",
        completion({ content: null, function_call: { name: "pay", arguments: text } }, "function_call")
      ],
      [
        vendor,
        "arguments as an object",
        completion({ content: null, tool_calls: [call({ euros: 1 })] }, "tool_calls")
      ],
      [
        vendor,
        "a call that comes twice",
        completion({ content: null, tool_calls: [call(text), { ...call(text), index: 1 }] }, "tool_calls")
      ],
      [
        vendor,
        "a call without an index",
        completion({ content: null, tool_calls: [{ ...call(text), index: undefined }] }, "tool_calls")
      ],
      [
        vendor,
        "a foreign finish reason",
        completion({ content: null, tool_calls: [call(text)] }, "tool_use")
      ],
      [vendor, "no finish reason", completion({ content: null, tool_calls: [call(text)] }, null), true],
      [
        vendor,
        "a finish reason that is no text",
        completion({ content: null, tool_calls: [call(text)] }, 1),
        true
      ]
    ]
  ),
  [
    "compatible",
    "a call without a type",
    completion({ content: null, tool_calls: [{ ...call(text), type: undefined }] }, "tool_calls")
  ],
  [
    "chat",
    "a call without a type",
    completion({ content: null, tool_calls: [{ ...call(text), type: undefined }] }, "tool_calls"),
    true
  ],
  ["anthropic", "arguments as a text", message([{ ...block, input: text } as never], "tool_use")],
  [
    "anthropic",
    "arguments that come twice",
    started([claude.block(0, block), claude.json(0, text), claude.stop(0)])
  ],
  [
    "anthropic",
    "a delta of arguments as an object",
    started([
      claude.block(0, { ...block, input: {} }),
      {
        type: "content_block_delta",
        index: 0,
        delta: { type: "input_json_delta", partial_json: block.input }
      },
      claude.stop(0)
    ])
  ],
  ["anthropic", "a call that comes twice", message([block, block], "tool_use")],
  ["anthropic", "a foreign stop reason", message([block], "tool_calls")],
  ["anthropic", "no stop reason", message([block], null), true],
  ["responses", "arguments as an object", response([{ ...functionCall, arguments: { euros: 1 } }])],
  [
    "responses",
    "streamed arguments as an object",
    either({ ...responded, output: [functionCall] }, [
      { type: "response.created", response: responded },
      { type: "response.output_item.added", output_index: 0, item: { ...functionCall, arguments: "" } },
      {
        type: "response.function_call_arguments.delta",
        item_id: "fc_1",
        output_index: 0,
        delta: { euros: 1 }
      },
      {
        type: "response.function_call_arguments.done",
        item_id: "fc_1",
        output_index: 0,
        arguments: { euros: 1 }
      },
      { type: "response.output_item.done", output_index: 0, item: functionCall },
      { type: "response.completed", response: responded }
    ])
  ],
  ["responses", "an item that comes twice", response([functionCall, functionCall])],
  ["responses", "no status", response([{ ...functionCall, status: undefined }], { status: undefined })],
  ["google", "arguments as a text", gemini([{ functionCall: { name: "pay", args: text } }], "STOP")],
  [
    "google",
    "a call that comes twice",
    gemini(
      [
        { functionCall: { id: "a", name: "pay", args: { euros: 1 } } },
        { functionCall: { id: "a", name: "pay", args: { euros: 1 } } }
      ],
      "STOP"
    )
  ],
  [
    "google",
    "no finish reason",
    gemini([{ functionCall: { name: "pay", args: { euros: 1 } } }], undefined),
    true
  ]
]

describe("a complete call in an unusual form", () => {
  for (const [vendor, what, send, onlyWhole = false] of oneCall) {
    it.live(`runs once: ${vendor}, ${what}`, () =>
      Effect.gen(function* () {
        for (const surface of onlyWhole ? (["whole"] as const) : surfaces) {
          const server = yield* serving(send, good[vendor])
          const { paid, outcome } = yield* paying(surface, vendor, server.url)
          assert.deepStrictEqual([paid, outcome.status, outcome.text], [[1], "completed", "Good."], surface)
          assert.strictEqual(server.hits.length, 2)
        }
      })
    )
  }

  it.live("is an event", () =>
    Effect.gen(function* () {
      const server = yield* serving(
        completion({ content: null, tool_calls: [call({ euros: 1 })] }, "tool_calls"),
        good.compatible
      )
      const { events } = yield* paying("run", "compatible", server.url)
      assert.strictEqual(events.filter((tag) => tag === "AnswerRepaired").length, 1)
    })
  )

  it.live("is not one call with another of the same id and other arguments", () =>
    Effect.gen(function* () {
      const other = call('{"euros":2}')
      const server = yield* serving(
        completion({ content: null, tool_calls: [call(text), { ...other, index: 1 }] }, "tool_calls"),
        good.compatible
      )
      const { paid } = yield* paying("whole", "compatible", server.url)
      assert.deepStrictEqual(paid, [1, 2])
    })
  )
})

describe("repeated calls and calls that share an id", () => {
  it.live("runs a repeated call once when the events have blanks after their colons", () =>
    Effect.gen(function* () {
      const events = [
        chat.delta({ tool_calls: [call(text)] }),
        chat.delta({ tool_calls: [{ ...call(text), index: 1 }] }),
        chat.delta({}, "tool_calls")
      ].map((event) => JSON.stringify(event).replace('"tool_calls":[', '"tool_calls": ['))
      const server = yield* serving(
        (response) => RawServer.events(response, [...events, chat.done]),
        good.compatible
      )
      const { paid } = yield* paying("stream", "compatible", server.url)
      assert.deepStrictEqual(paid, [1])
    })
  )

  const resent: Record<string, ReadonlyArray<string>> = {
    "all of its arguments so far": ['{"eu', '{"euros":', text, text],
    "its arguments in pieces, then as a whole": ['{"eu', 'ros":1}', text],
    "its arguments twice": [text, text]
  }
  for (const [what, pieces] of Object.entries(resent)) {
    for (const isNamed of [true, false]) {
      it.live(`runs a call once whose chunks have ${what}, ${isNamed ? "with" : "without"} its id`, () =>
        Effect.gen(function* () {
          const send: Replies.Send = (response) => {
            const events = pieces.map((piece, i) =>
              chat.delta({
                tool_calls: [isNamed || i === 0 ? call(piece) : { index: 0, function: { arguments: piece } }]
              })
            )
            RawServer.events(response, [...events, chat.delta({}, "tool_calls"), chat.done])
          }
          for (const surface of surfaces) {
            const server = yield* serving(send, good.compatible)
            const { paid } = yield* paying(surface, "compatible", server.url)
            assert.deepStrictEqual(paid, [1], surface)
          }
        })
      )
    }
  }

  it.live("runs the calls that stand in a choice beside the text (HKUDS/nanobot#1555)", () =>
    Effect.gen(function* () {
      const choice = (index: number, message: object) => ({
        index,
        message: { role: "assistant", content: null, ...message },
        finish_reason: "tool_calls"
      })
      const body = {
        id: "c1",
        object: "chat.completion",
        created: 1,
        model: "m",
        choices: [choice(0, { content: "I pay." }), choice(1, { tool_calls: [{ ...call(text), index: 0 }] })],
        usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
      }
      for (const surface of surfaces) {
        const server = yield* serving((response) => RawServer.json(response, 200, body), good.compatible)
        const { paid } = yield* paying(surface, "compatible", server.url)
        assert.deepStrictEqual(paid, [1], surface)
      }
    })
  )

  it.live("runs both calls of Responses when all items have the id of the response", () =>
    Effect.gen(function* () {
      for (const surface of surfaces) {
        const item = { ...functionCall, id: "resp_1" }
        const server = yield* serving(
          response([item, { ...item, call_id: "call_2", arguments: '{"euros":2}' }]),
          good.responses
        )
        const { paid } = yield* paying(surface, "responses", server.url)
        assert.deepStrictEqual(paid, [1, 2], surface)
      }
    })
  )

  it.live("runs both calls of Responses when they have one id and one call_id, and other arguments", () =>
    Effect.gen(function* () {
      for (const surface of surfaces) {
        const server = yield* serving(
          response([functionCall, { ...functionCall, arguments: '{"euros":2}' }]),
          good.responses
        )
        const { paid } = yield* paying(surface, "responses", server.url)
        assert.deepStrictEqual(paid, [1, 2], surface)
      }
    })
  )
})

const noCalls: ReadonlyArray<readonly [Vendor, Replies.Send]> = [
  ["chat", completion({ content: null }, "tool_calls")],
  ["compatible", completion({ content: "" }, "function_call")],
  ["compatible", completion({ content: null, calls: [{ name: "pay" }] }, "tool_calls")],
  ["anthropic", message([], "tool_use")]
]

describe("an answer that announces calls and has none that is known", () => {
  for (const [i, [vendor, send]] of noCalls.entries()) {
    it.live(`is asked for again, and never complete: ${vendor}, ${i}`, () =>
      Effect.gen(function* () {
        for (const way of ways) {
          const server = yield* serving(send, good[vendor])
          const came = yield* asked(way, [vendors[vendor](server.url)])
          assert.deepStrictEqual([came.text, came.failures], ["Good.", ["Format"]], way)
          assert.strictEqual(server.hits.length, 2)
        }
      })
    )
  }
})

describe("an answer with text that announces a call and has none (anthropics/claude-code#40240)", () => {
  const first = "First I pay."
  const samples: ReadonlyArray<readonly [Vendor, announces: Replies.Send, calls: Replies.Send]> = [
    [
      "anthropic",
      Replies.send.anthropic({ text: first, end: "tool_use", tokens: 3 }),
      message([block], "tool_use")
    ],
    [
      "chat",
      Replies.send.chat({ text: first, end: "tool_calls", tokens: 3 }),
      completion({ content: null, tool_calls: [call(text)] }, "tool_calls")
    ]
  ]
  for (const [vendor, announces, calls] of samples) {
    it.live(`is asked for again: ${vendor}`, () =>
      Effect.gen(function* () {
        for (const surface of surfaces) {
          const server = yield* serving(announces, calls, good[vendor])
          const { outcome, paid } = yield* paying(surface, vendor, server.url)
          assert.deepStrictEqual([outcome.status, paid], ["completed", [1]], surface)
          assert.strictEqual(server.hits.length, 3)
        }
      })
    )

    it.live(`is complete when it comes again: ${vendor}`, () =>
      Effect.gen(function* () {
        for (const surface of surfaces) {
          const server = yield* serving(announces)
          const { outcome } = yield* paying(surface, vendor, server.url)
          assert.deepStrictEqual([outcome.status, outcome.text], ["completed", first], surface)
          assert.strictEqual(server.hits.length, 2)
        }
      })
    )
  }
})

// -----------------------------------------------------------------------------
// Bad samples
// -----------------------------------------------------------------------------

const refusedCall = (detail: string) => ({
  error: {
    message: detail,
    type: "invalid_request_error",
    code: "tool_use_failed",
    failed_generation: "<function=pay"
  }
})

const bad: ReadonlyArray<readonly [Vendor, string, Replies.Send, RegExp]> = [
  [
    "compatible",
    "a call that cannot be parsed",
    (response) =>
      RawServer.json(response, 400, refusedCall("Failed to call a function. Please adjust your prompt.")),
    /cannot be read/
  ],
  [
    "compatible",
    "a call that does not fit its schema",
    (response) =>
      RawServer.json(
        response,
        400,
        refusedCall("tool call validation failed: parameters for tool pay did not match schema")
      ),
    /do not fit the parameters/
  ],
  [
    "compatible",
    "a call of a tool that is not there",
    (response) =>
      RawServer.json(response, 400, refusedCall("attempted to call tool 'x' which was not in request.tools")),
    /not offered/
  ],
  [
    "compatible",
    "a call that Ollama could not parse",
    (response) =>
      RawServer.json(response, 500, { error: "error parsing tool call: raw='{', err=unexpected end" }),
    /cannot be read/
  ],
  ["google", "a malformed call", gemini([], "MALFORMED_FUNCTION_CALL"), /cannot be read/]
]

describe("a bad sample of the model", () => {
  for (const [vendor, what, send, reason] of bad) {
    it.live(`is asked for twice more, with the reason: ${vendor}, ${what}`, () =>
      Effect.gen(function* () {
        for (const surface of surfaces) {
          const server = yield* serving(send, send, good[vendor])
          const { outcome } = yield* paying(surface, vendor, server.url)
          assert.deepStrictEqual([outcome.status, outcome.text], ["completed", "Good."], surface)
          assert.strictEqual(server.hits.length, 3)
          for (const hit of server.hits.slice(1)) assert.match(JSON.stringify(hit.body), reason)
          assert.notInclude(JSON.stringify(server.hits.map(({ body }) => body)), "<function=pay")
        }
      })
    )
  }

  for (const [status, said] of [
    [200, "HarmonyError('Unknown role: <|start|>assistant')"],
    [400, "Unexpected token 12606 while expecting start token 200006"],
    [400, "Unknown role: assistantassistant"],
    [500, "channel marker present but no channel value found in header"],
    [500, 'unexpected tokens remaining in message header: Some("to=functions.web-browsing")']
  ] as const) {
    it.live(`is asked for again when its format cannot be read: HTTP ${status} ${said}`, () =>
      Effect.gen(function* () {
        for (const surface of surfaces) {
          const type = status === 500 ? "InternalServerError" : "BadRequestError"
          const error = { message: said, type, param: null, code: status === 200 ? 400 : status }
          const server = yield* serving(
            (response) => RawServer.json(response, status, { error }),
            good.compatible
          )
          const { outcome } = yield* paying(surface, "compatible", server.url)
          assert.deepStrictEqual([outcome.status, outcome.text], ["completed", "Good."], surface)
          assert.strictEqual(server.hits.length, 2)
        }
      })
    )
  }

  for (const vendor of ["anthropic", "chat", "compatible", "responses", "google"] as const) {
    it.live(`is prose in place of JSON without a schema: ${vendor}`, () =>
      Effect.gen(function* () {
        for (const isStream of [false, true]) {
          const end = vendor === "anthropic" ? "end_turn" : vendor === "google" ? "STOP" : "stop"
          const send = (text: string) => Replies.send[vendor]({ text, end, tokens: 3 })
          const server = yield* serving(send("I would rather not."), send('{"a":1}'))
          const text = yield* Effect.promise(async () => {
            await using model = toAiSdk(
              Failover.layer([vendors[vendor](server.url)({})], { policy }).pipe(
                Layer.provideMerge(Warnings.layerOff)
              )
            )
            const options = {
              prompt: [{ role: "user" as const, content: [{ type: "text" as const, text: "hello" }] }],
              responseFormat: { type: "json" as const }
            }
            if (!isStream) {
              const { content } = await model.doGenerate(options)
              return content.map((part) => (part.type === "text" ? part.text : "")).join("")
            }
            let all = ""
            for await (const part of (await model.doStream(options)).stream) {
              if (part.type === "text-delta") all += part.delta
            }
            return all
          })
          assert.strictEqual(text, '{"a":1}')
          assert.strictEqual(server.hits.length, 2)
        }
      })
    )
  }
})

// -----------------------------------------------------------------------------
// Refusals after text
// -----------------------------------------------------------------------------

const sorry = "I am sorry, but"
const refusals: ReadonlyArray<readonly [Vendor, Replies.Send]> = [
  ["anthropic", Replies.send.anthropic({ text: sorry, end: "refusal", tokens: 3 })],
  ["chat", Replies.send.chat({ text: sorry, end: "content_filter", tokens: 3 })],
  ["compatible", completion({ refusal: sorry }, "stop")],
  ["responses", Replies.send.responses({ text: sorry, end: "content_filter", tokens: 3 })],
  ["google", Replies.send.google({ text: sorry, end: "SAFETY", tokens: 3 })]
]

describe("a refusal after text", () => {
  const fallback: RecoveryPolicy.RecoveryPolicy = {
    ...policy,
    rows: { ...policy.rows, ContentPolicy: { ...RecoveryPolicy.base, then: "move", to: ["gpt-5.1"] } }
  }
  for (const [vendor, send] of refusals) {
    it.live(`is taken back, and never continued by another model: ${vendor}`, () =>
      Effect.gen(function* () {
        for (const surface of ["agent", "outlast", "effect"] as const) {
          const server = yield* serving(send)
          const other = yield* serving(good.compatible)
          const layer = Failover.layer(
            [vendors[vendor](server.url)({}), vendors.compatible(other.url, "gpt-5.1")({})],
            { policy: fallback }
          ).pipe(Layer.provideMerge(Warnings.layerOff))
          const asking = (stream: Stream.Stream<any, unknown, LanguageModel.LanguageModel>) =>
            stream.pipe(
              Stream.runFold(
                () => "",
                (all, part) =>
                  part.type === "rewind" ? "" : part.type === "text-delta" ? all + part.delta : all
              ),
              Effect.match({
                onFailure: (error): string =>
                  String(Outlast.failureOf(error)).includes("ContentPolicy") ? "refused" : String(error),
                onSuccess: (text) => text
              }),
              Effect.provide(layer),
              Effect.orDie
            )
          const text = yield* asking(
            surface === "agent"
              ? Agent.stream({ prompt: "How?" })
              : surface === "outlast"
                ? Outlast.streamText({ prompt: "How?" })
                : LanguageModel.streamText({ prompt: "How?" })
          )
          assert.notInclude(JSON.stringify(other.hits.map(({ body }) => body)), sorry)
          // A consumer that cannot take text back gets the answer behind it.
          assert.strictEqual(text, surface === "effect" ? `${sorry}Good.` : "Good.", surface)
          assert.strictEqual(other.hits.length, 1)
        }
      })
    )
  }
})

// -----------------------------------------------------------------------------
// Usage
// -----------------------------------------------------------------------------

const absurd: ReadonlyArray<readonly [string, unknown]> = [
  ["above all numbers", 1e308],
  ["negative", -5],
  ["a text", "many"],
  ["null", null],
  ["a fraction", 7.5],
  ["an object", { total: 12 }]
]

describe("absurd usage", () => {
  for (const [what, count] of absurd) {
    it.live(`does not cost the answer: ${what}`, () =>
      Effect.gen(function* () {
        const counts = { prompt_tokens: count, completion_tokens: count, total_tokens: count }
        const said = { content: "Good." }
        const all: ReadonlyArray<readonly [Vendor, Replies.Send]> = [
          ["chat", completion(said, "stop", {}, counts)],
          ["compatible", completion(said, "stop", {}, counts)],
          ["compatible", completion(said, "stop", {}, count)],
          ["compatible", completion(said, "stop", {}, { ...usage, prompt_tokens_details: count })],
          [
            "anthropic",
            message([{ type: "text", text: "Good." } as never], "end_turn", {
              input_tokens: count,
              output_tokens: count
            })
          ],
          [
            "responses",
            response([textItem("Good.")], { usage: { input_tokens: count, output_tokens: count } })
          ],
          [
            "google",
            gemini([{ text: "Good." }], "STOP", { promptTokenCount: count, candidatesTokenCount: count })
          ]
        ]
        for (const [vendor, send] of all) {
          for (const way of ways as ReadonlyArray<Way>) {
            const server = yield* serving(send)
            const came = yield* asked(way, [vendors[vendor](server.url)])
            assert.deepStrictEqual([came.text, came.failures], ["Good.", []], `${vendor} ${way}`)
            assert.strictEqual(server.hits.length, 1)
          }
        }
      })
    )
  }
})

describe("usage that is null where counts are required", () => {
  for (const way of ways) {
    it.live(`does not cost the answer: anthropic, ${way}`, () =>
      Effect.gen(function* () {
        const server = yield* serving(
          either(
            {
              ...claude.start.message,
              content: [{ type: "text", text: "Good." }],
              stop_reason: "end_turn",
              usage: null
            },
            [
              { ...claude.start, message: { ...claude.start.message, usage: null } },
              claude.block(0),
              claude.text(0, "Good."),
              claude.stop(0),
              { ...claude.delta("end_turn"), usage: null },
              claude.end
            ]
          )
        )
        const came = yield* asked(way, [vendors.anthropic(server.url)])
        assert.deepStrictEqual([came.text, came.failures, server.hits.length], ["Good.", [], 1])
      })
    )
  }
})

// -----------------------------------------------------------------------------
// Failed tools of the provider
// -----------------------------------------------------------------------------

/** A tool that the provider runs, with schemas that know no failure. */
const Search = Tool.providerDefined({
  id: "anthropic.web_search_20250305",
  customName: "web_search",
  providerName: "web_search",
  parameters: Schema.Struct({ query: Schema.String }),
  success: Schema.Array(Schema.Unknown)
})

const searching = (input: object, code: string) => {
  const use = { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input }
  const result = {
    type: "web_search_tool_result",
    tool_use_id: "srvtoolu_1",
    content: { type: "web_search_tool_result_error", error_code: code }
  }
  return either(
    {
      ...claude.start.message,
      content: [use, result, { type: "text", text: "Not found." }],
      stop_reason: "end_turn"
    },
    [
      claude.start,
      claude.block(0, { ...use, input: {} }),
      claude.json(0, JSON.stringify(input)),
      claude.stop(0),
      claude.block(1, result),
      claude.stop(1),
      claude.block(2),
      claude.text(2, "Not found."),
      claude.stop(2),
      claude.delta("end_turn"),
      claude.end
    ]
  )
}

describe("a tool of the provider that fails inside a good answer", () => {
  for (const [code, input] of [
    ["max_uses_exceeded", { query: "rivers" }],
    ["unavailable", { query: "rivers" }],
    ["invalid_tool_input", { q: 1 }]
  ] as const) {
    for (const way of ways) {
      it.live(`leaves the answer readable, and says that it failed: ${code}, ${way}`, () =>
        Effect.gen(function* () {
          const server = yield* serving(searching(input, code))
          const info = way === "request" ? ({ wholeAnswers: "request" } as const) : {}
          const toolkit = Toolkit.make(Search(undefined as never)) as unknown as Toolkit.Toolkit<{}>
          const options = { prompt: "Search.", toolkit }
          const asking: Effect.Effect<ReadonlyArray<unknown>, unknown, LanguageModel.LanguageModel> = way ===
          "stream"
            ? Stream.runCollect(LanguageModel.streamText(options))
            : Effect.map(LanguageModel.generateText(options), ({ content }) => content)
          const given = yield* asking.pipe(
            Effect.provide(
              Failover.layer([vendors.anthropic(server.url)(info)], { policy }).pipe(
                Layer.provideMerge(Warnings.layerOff)
              )
            ),
            Effect.orDie
          )
          const parts = given as ReadonlyArray<any>
          const text = parts
            .map((part) => part.text ?? (part.type === "text-delta" ? part.delta : ""))
            .join("")
          const result = parts.find((part) => part.type === "tool-result")
          assert.strictEqual(text, "Not found.")
          assert.isTrue(result?.isFailure)
          assert.include(JSON.stringify(result?.result), code)
          assert.strictEqual(server.hits.length, 1)
        })
      )
    }
  }
})

// -----------------------------------------------------------------------------
// Text before a failure
// -----------------------------------------------------------------------------

describe("a run that fails after it has shown text", () => {
  it.live("has that text in the transcript of its error, unless it was refused", () =>
    Effect.gen(function* () {
      for (const [end, isKept] of [
        ["cut", true],
        ["refusal", false]
      ] as const) {
        const server = yield* RawServer.start((response, hit, n) => {
          if (n > 0)
            return RawServer.json(response, 400, { error: { type: "invalid_request_error", message: "no" } })
          if (end === "refusal")
            return Replies.send.anthropic({ text: "Shown text.", end, tokens: 3 })(response, hit)
          RawServer.events(response, [claude.start, claude.block(0), claude.text(0, "Shown text.")], true)
          setTimeout(() => response.socket?.resetAndDestroy(), 20)
        })
        const layer = Failover.layer([vendors.anthropic(server.url)({})], { policy }).pipe(
          Layer.provideMerge(Warnings.layerOff)
        )
        const error = yield* Effect.flip(Stream.runDrain(Agent.stream({ prompt: "Go." }))).pipe(
          Effect.provide(layer)
        )
        assert.strictEqual(error._tag, "AgentFailed")
        const last = error.transcript.prompt.content.at(-1)
        assert.strictEqual(last?.role, isKept ? "assistant" : "user", end)
        if (isKept) assert.include(JSON.stringify(last), "Shown text.")
      }
    })
  )
})
