import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Fiber, Option, Stream } from "effect"
import { Chat, LanguageModel } from "effect/ai"
import { vi } from "vitest"
import { Failover, FailoverReason, Outlast } from "@outlast/agent"
import type { RecoveryPolicy } from "@outlast/agent"
import type { Chain, Part } from "../support.ts"
import {
  failure,
  failureOf,
  finish,
  inTime,
  keepAlive,
  played,
  policy,
  recording,
  say,
  serverError,
  text,
  textOf,
  thinking,
  timed,
  timesOf,
  toolCall
} from "../support.ts"

const asked = LanguageModel.streamText({
  prompt: "What is the plan?",
  // Tool calls stay as the provider made them.
  disableToolCallResolution: true,
  toolCallValidation: "deferred"
})

const over = (chain: Chain, changes: Partial<RecoveryPolicy.RecoveryPolicy> = {}) =>
  Effect.provide(Failover.layer(chain, { policy: { ...policy, ...changes } }))

const read = (chain: Chain, changes?: Partial<RecoveryPolicy.RecoveryPolicy>) =>
  inTime(Stream.runCollect(asked).pipe(over(chain, changes)))

/** Returns the result and the time of a call that no target answers. */
const ending = (chain: Chain, changes?: Partial<RecoveryPolicy.RecoveryPolicy>) =>
  inTime(
    timed(failureOf(Stream.runDrain(asked))).pipe(
      Effect.map(({ value, took }) => ({ failed: value, took })),
      over(chain, changes)
    )
  )

const hello = say(...text.block("hello"), finish())
const silent: Stream.Stream<Part> = Stream.never

describe("the end of an attempt", () => {
  it.effect("an error part is a failure, classified, and later parts are not read", () =>
    Effect.gen(function* () {
      const error = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } }
      const { layer, of } = recording()
      const target = played({
        streams: [say({ type: "error", error }, ...text.block("no"), finish()), hello]
      })
      const parts = yield* Effect.provide(read([target]), layer)
      assert.strictEqual(textOf(parts), "hello")
      assert.deepStrictEqual(
        of("AttemptFailed").map(({ reason }) => reason),
        ["Overloaded"]
      )
      assert.deepStrictEqual(timesOf(target), [0, 1_000])
    })
  )

  it.effect("a finish with the reason error is a failure", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const target = played({ streams: [say(text.start(), finish("error")), hello] })
      const parts = yield* Effect.provide(read([target]), layer)
      assert.strictEqual(textOf(parts), "hello")
      assert.deepStrictEqual(
        of("AttemptFailed").map(({ reason, rule }) => [reason, rule]),
        [["ServerError", "stream/finish-error"]]
      )
      assert.deepStrictEqual(
        parts.flatMap((part) => (part.type === "finish" ? [part.reason] : [])),
        ["stop"]
      )
    })
  )

  it.effect("a stream that ends without a finish is a failure, however long it is", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const target = played({
        streams: [say(...text.block("hel")), say(), say(...text.block("lo"), finish())]
      })
      const parts = yield* Effect.provide(read([target]), layer)
      assert.strictEqual(textOf(parts), "hello")
      assert.deepStrictEqual(
        of("AttemptFailed").map(({ reason, rule }) => [reason, rule]),
        [
          ["Network", "stream/cut"],
          ["Network", "stream/cut"]
        ]
      )
    })
  )

  it.effect("an incomplete tool call is a cut answer, whatever the finish says (vllm#58228)", () =>
    Effect.gen(function* () {
      const begun: Part = { type: "tool-params-start", id: "1", name: "search" }
      const params: Part = { type: "tool-params-delta", id: "1", delta: '{"query": "pl' }
      for (const reason of ["stop", "tool-calls", "unknown"] as const) {
        const { layer, of } = recording()
        const broken = say(...text.block("I look."), begun, params, finish(reason, 7))
        const target = played({ streams: [broken, say(toolCall("1"), finish("tool-calls"))] })
        const parts = yield* Effect.provide(read([target]), layer)
        assert.deepStrictEqual(
          of("AttemptFailed").map(({ reason, rule }) => [reason, rule]),
          [["Format", "stream/cut-arguments"]]
        )
        assert.deepStrictEqual(
          parts.flatMap((part) => (part.type === "tool-call" ? [part.id] : [])),
          ["1"]
        )
        // The usage of the broken attempt is counted.
        assert.deepStrictEqual(
          parts.flatMap((part) => (part.type === "finish" ? [part.usage.outputTokens.total] : [])),
          [8]
        )
      }
      // A provider may refuse to continue inside a tool call.
      const refused = played({ streams: [say(...text.block("I look."), begun, finish("content-filter"))] })
      const { failed } = yield* ending([refused])
      assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "ContentPolicy")
      assert.strictEqual(refused.requests.length, 1)
    })
  )

  it.effect("parts after the finish are not read, and the end of the stream is not waited for", () =>
    Effect.gen(function* () {
      const broken = Stream.concat(say(1_000, ...text.block("no")), Stream.fail(serverError))
      for (const rest of [silent, broken, say(...text.block("no"), finish("error"))]) {
        const target = played({ streams: [Stream.concat(hello, rest)] })
        const { value: parts, took } = yield* inTime(timed(Stream.runCollect(asked)).pipe(over([target])))
        assert.strictEqual(textOf(parts), "hello")
        assert.strictEqual(parts.filter((part) => part.type === "finish").length, 1)
        assert.strictEqual(took, 0)
        assert.strictEqual(target.requests.length, 1)
      }
    })
  )

  it.effect("a call after a tool of the provider is never sent again", () =>
    Effect.gen(function* () {
      const search = toolCall("1", { providerExecuted: true })
      for (const said of [[search], [search, ...text.block("found")], [...text.block("so"), search]]) {
        const first = played({ streams: [say(...said), hello] })
        const second = played({ model: "m2", streams: [hello] })
        const { failed } = yield* ending([first, second])
        assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "Network")
        assert.deepStrictEqual([first.requests.length, second.requests.length], [1, 0])
      }
    })
  )

  it.effect("with midStream fail a stream fails once text was seen, and not before", () =>
    Effect.gen(function* () {
      const seen = played({ streams: [say(text.start(), text.delta("hel")), hello] })
      const { failed, took } = yield* ending([seen, played({ model: "m2", streams: [hello] })], {
        midStream: "fail"
      })
      assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "Network")
      assert.deepStrictEqual([seen.requests.length, took], [1, 0])
      const unseen = played({ streams: [say(...thinking.block("so", "s"), text.start()), hello] })
      assert.strictEqual(textOf(yield* read([unseen], { midStream: "fail" })), "hello")
    })
  )

  it.effect("a policy's maxCost includes the usage of a finish with the reason error", () =>
    Effect.gen(function* () {
      const price = { input: 0, output: 1 }
      for (const [maxCost, attempts] of [
        [undefined, 5],
        [1.5, 2],
        [0.5, 1]
      ] as const) {
        const target = played({ streams: [say(finish("error", 1_000_000))], info: { price } })
        yield* ending([target], { maxCost })
        assert.strictEqual(target.requests.length, attempts)
      }
    })
  )

  it.effect("seen text is sent with the nudge, unless it is blank", () =>
    Effect.gen(function* () {
      const target = played({
        streams: [say(text.start(), text.delta(" ")), say(text.start(), text.delta("hel")), hello]
      })
      yield* read([target], { nudges: { ...policy.nudges, interrupted: "Go on." } })
      const sent = target.requests.map(({ request }) => request.prompt.content.slice(1))
      assert.deepStrictEqual([sent[0]?.length, sent[1]?.length], [0, 0])
      const [partial, nudge] = sent[2] ?? []
      assert.isTrue(partial?.role === "assistant" && nudge?.role === "user")
      assert.include(JSON.stringify(partial), '" hel"')
      assert.include(JSON.stringify(nudge), "Go on.")
    })
  )

  it.effect("the request of a failed attempt is closed before the next one begins", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const logged = (name: string, stream: typeof hello) =>
        Stream.unwrap(
          Effect.as(
            Effect.acquireRelease(
              Effect.sync(() => log.push(`${name} opens`)),
              () => Effect.sync(() => log.push(`${name} closes`))
            ),
            stream
          )
        )
      const target = played({ streams: [logged("first", silent), logged("second", hello)] })
      yield* read([target])
      assert.deepStrictEqual(log, ["first opens", "first closes", "second opens", "second closes"])
    })
  )
})

describe("the time limits", () => {
  /** Returns the effect of the limits on a first target with this stream. */
  const limited = (stream: typeof hello, info = {}) =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const chain: Chain = [
        played({ streams: [stream, hello], info }),
        played({ model: "m2", streams: [hello] })
      ]
      const parts = yield* Effect.provide(read(chain), layer)
      return { parts, failed: of("AttemptFailed").map(({ rule, elapsed }) => [rule, elapsed] as const) }
    })

  it.effect("the first token has 60 s, including the opening of the stream", () =>
    Effect.gen(function* () {
      const late = [
        silent,
        Stream.unwrap(Effect.as(Effect.never, hello)),
        Stream.unwrap(Effect.as(Effect.sleep("40 seconds"), say(20_001, ...text.block("late"), finish()))),
        say(59_999, keepAlive, 2, ...text.block("late"), finish())
      ]
      for (const stream of late) {
        const { parts, failed } = yield* limited(stream)
        assert.deepStrictEqual(failed, [["limit/first-token", 60_000]])
        assert.strictEqual(textOf(parts), "hello")
      }
      const inside = Stream.unwrap(
        Effect.as(Effect.sleep("40 seconds"), say(19_999, ...text.block("just"), finish()))
      )
      assert.deepStrictEqual((yield* limited(inside)).failed, [])
    })
  )

  it.effect("a stream that cannot be opened is abandoned after 60 s", () =>
    Effect.gen(function* () {
      const unopened = Stream.fromPull<Part, never, never, never, never>(Effect.never)
      const first: Chain[0] = {
        ...played({}),
        build: Effect.succeed({ info: {}, generateText: () => Effect.never, streamText: () => unopened })
      }
      const second = played({ model: "m2", streams: [hello] })
      assert.strictEqual(textOf(yield* read([first, second])), "hello")
      assert.deepStrictEqual(timesOf(second), [60_000])
    })
  )

  it.effect("each further token has its own 60 s", () =>
    Effect.gen(function* () {
      const slow = say(59_000, text.start(), text.delta("a"), 59_000, text.delta("b"), 59_000, finish())
      assert.deepStrictEqual((yield* limited(slow)).failed, [])
      const late = say(59_000, text.start(), text.delta("a"), 60_001, text.delta("b"), finish())
      assert.deepStrictEqual((yield* limited(late)).failed, [["limit/idle", 119_000]])
    })
  )

  it.effect("a model that thinks before it answers has 180 s for both limits", () =>
    Effect.gen(function* () {
      const reasoning = { reasoning: true }
      const slow = say(179_000, thinking.start(), thinking.delta("a"), 179_000, ...text.block("b"), finish())
      assert.deepStrictEqual((yield* limited(slow, reasoning)).failed, [])
      assert.deepStrictEqual((yield* limited(silent, reasoning)).failed, [["limit/first-token", 180_000]])
      const idle = Stream.concat(say(1_000, thinking.start(), thinking.delta("a")), silent)
      assert.deepStrictEqual((yield* limited(idle, reasoning)).failed, [["limit/idle", 181_000]])
    })
  )

  it.effect("a token ends the silence before it", () =>
    Effect.gen(function* () {
      const stream = say(40_000, keepAlive, 15_000, text.start(), text.delta("a"), 40_000, keepAlive, 15_000)
      const more = say(text.delta("b"), 40_000, keepAlive, 15_000, text.end(), finish())
      assert.deepStrictEqual((yield* limited(Stream.concat(stream, more))).failed, [])
    })
  )

  it.effect("keep-alives do not reset the silence", () =>
    Effect.gen(function* () {
      const before = say(25_000, keepAlive, 25_000, text.start(), 25_000, text.delta("late"), finish())
      assert.deepStrictEqual((yield* limited(before)).failed, [["limit/first-token", 60_000]])
      const empty = text.delta("")
      const between = say(
        text.start(),
        text.delta("a"),
        25_000,
        empty,
        25_000,
        keepAlive,
        25_000,
        text.delta("b")
      )
      assert.deepStrictEqual((yield* limited(between)).failed, [["limit/idle", 60_000]])
    })
  )

  it.effect("keep-alives inside the arguments of a call do not reset the silence", () =>
    Effect.gen(function* () {
      const begun = say(
        { type: "tool-params-start", id: "1", name: "search" },
        { type: "tool-params-delta", id: "1", delta: "{" }
      )
      const beating = say(...Array.from({ length: 20 }, () => [5_000, keepAlive]).flat())
      const late = say({ type: "tool-params-delta", id: "1", delta: "}" }, toolCall("1"), finish())
      const stream = Stream.concat(begun, Stream.concat(beating, late))
      assert.deepStrictEqual((yield* limited(stream)).failed, [["limit/idle", 60_000]])
    })
  )

  it.effect("thinking and tool parameters end the silence, although the latter are not shown", () =>
    Effect.gen(function* () {
      const params = (delta: string): Part => ({ type: "tool-params-delta", id: "1", delta })
      const began: Part = { type: "tool-params-start", id: "1", name: "search" }
      const pieces = [
        [thinking.start(), thinking.delta("a")],
        [thinking.delta("b")],
        [began],
        [params("{")],
        [params("}"), toolCall("1")],
        [...text.block("done", "2"), finish()]
      ]
      const stream = say(...pieces.flatMap((parts) => [50_000, ...parts]))
      assert.deepStrictEqual((yield* limited(stream)).failed, [])
    })
  )

  it.effect("a shorter limit between tokens holds from the first token on", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const limits = { ...policy.limits, idle: Duration.seconds(5) }
      const stream = Stream.concat(say(30_000, text.start(), text.delta("a")), silent)
      const chain: Chain = [played({ streams: [stream, hello] })]
      yield* Effect.provide(read(chain, { limits }), layer)
      assert.deepStrictEqual(
        of("AttemptFailed").map(({ rule, elapsed }) => [rule, elapsed]),
        [["limit/idle", 35_000]]
      )
    })
  )

  it.effect("the limits hold on the clock of the call, whichever fiber reads the stream", () =>
    Effect.gen(function* () {
      const { layer, of } = recording()
      const stream = Stream.concat(
        say(50_000, text.start(), text.delta("a"), 50_000, text.delta("b")),
        silent
      )
      const chain: Chain = [played({ streams: [stream, hello] })]
      const byOthers = Effect.gen(function* () {
        const pull = yield* Stream.toPull(asked)
        // Each part is read by a fiber that ends with it.
        const next = Effect.flatMap(Effect.forkChild(pull), Fiber.join)
        while (true) yield* next
      })
      yield* inTime(Effect.exit(Effect.scoped(byOthers)).pipe(over(chain))).pipe(Effect.provide(layer))
      assert.deepStrictEqual(
        of("AttemptFailed").map(({ rule, elapsed }) => [rule, elapsed]),
        [["limit/idle", 160_000]]
      )
    })
  )

  it("no timer is left of a stream that has ended, failed or was abandoned", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    const begun = say(text.start(), text.delta("a"))
    const waiting = Stream.concat(begun, silent)
    const streams = [
      say(text.start(), text.delta("a"), text.end(), finish()),
      Stream.concat(begun, say(finish("error"))),
      waiting
    ]
    for (const stream of streams) {
      const chain: Chain = [played({ streams: [stream] })]
      const drained = Effect.exit(Stream.runDrain(asked)).pipe(over(chain, { maxAttempts: 1 }))
      const fiber = Effect.runFork(drained)
      if (stream === waiting) {
        while (vi.getTimerCount() === 0) await new Promise((resume) => setImmediate(resume))
        await Effect.runPromise(Fiber.interrupt(fiber))
      }
      await Effect.runPromise(Fiber.await(fiber))
      assert.strictEqual(vi.getTimerCount(), 0)
    }
    vi.useRealTimers()
  })

  it.effect("a silence of the provider counts only while the consumer waits", () =>
    Effect.gen(function* () {
      const { layer, tags } = recording()
      const [a, b, c] = [text.delta("a"), text.delta("b"), text.delta("c")]
      const target = played({
        streams: [say(1_000, text.start(), a, 1_000, b, 630_000, c, text.end(), finish())]
      })
      const busy = Stream.tap(asked, (part) =>
        part.type === "text-delta" && part.delta === "b" ? Effect.sleep("10 minutes") : Effect.void
      )
      yield* inTime(Stream.runDrain(busy).pipe(over([target]))).pipe(Effect.provide(layer))
      assert.notInclude(tags(), "AttemptFailed")
    })
  )

  it.effect("the time of a slow consumer does not count", () =>
    Effect.gen(function* () {
      const target = played({
        streams: [
          say(text.start(), text.delta("a"), 1_000, keepAlive, 630_000, text.delta("b"), 1_000, finish())
        ]
      })
      const { layer, tags } = recording()
      yield* inTime(
        asked.pipe(
          Stream.tap((part) => (part.type === "text-delta" ? Effect.sleep("10 minutes") : Effect.void)),
          Stream.runDrain,
          over([target])
        )
      ).pipe(Effect.provide(layer))
      assert.deepStrictEqual(tags(), ["AttemptStarted", "CallSucceeded"])
    })
  )

  it.effect(
    "an attempt that streamed text does not count against the deadline, one with only thinking does",
    () =>
      Effect.gen(function* () {
        const slowly = (make: (said: string) => Part) => [
          50_000,
          make("a"),
          50_000,
          make("b"),
          50_000,
          make("c")
        ]
        const said = played({ streams: [say(text.start(), ...slowly(text.delta)), hello] })
        assert.strictEqual(textOf(yield* read([said])), "abchello")
        assert.deepStrictEqual(timesOf(said), [0, 151_000])
        const thought = played({ streams: [say(thinking.start(), ...slowly(thinking.delta)), hello] })
        const { failed, took } = yield* ending([thought])
        assert.strictEqual(failed._tag, "ProviderFailure")
        assert.strictEqual(took, 150_000)
      })
  )
})

describe("a stream that is read ahead", () => {
  it.effect("has every part, however many the provider sends at once", () =>
    Effect.gen(function* () {
      const words = Array.from({ length: 200 }, (_, i) => `word ${i} `)
      const parts = [text.start(), ...words.map((word) => text.delta(word)), text.end(), finish()]
      const target = played({ streams: [Stream.rechunk(Stream.fromIterable(parts), 1)] })
      assert.strictEqual(textOf(yield* read([target])), words.join(""))
    })
  )

  it.effect("dies with a defect of the provider's stream", () =>
    Effect.gen(function* () {
      const target = played({
        streams: [Stream.concat(say(...text.block("a")), Stream.die(new Error("bug")))]
      })
      const exit = yield* inTime(Effect.exit(asked.pipe(Stream.runDrain, over([target]))))
      assert.include(JSON.stringify(exit), "Die")
    })
  )
})

describe("the conversation afterwards", () => {
  it.effect("thinking of a failed attempt stays in the chat and is never sent", () =>
    Effect.gen(function* () {
      for (const thought of [
        thinking.block("lost thought", "s1"),
        [thinking.start(), thinking.delta("lost thought")]
      ]) {
        const target = played({
          streams: [
            say(...thought),
            say(...thinking.block("good thought", "s2"), ...text.block("one", "1"), finish()),
            hello
          ]
        })
        const history = yield* inTime(
          Effect.gen(function* () {
            const chat = yield* Chat.empty
            yield* Stream.runDrain(chat.streamText({ prompt: "first" }))
            yield* Stream.runDrain(chat.streamText({ prompt: "second" }))
            return yield* chat.exportJson
          }).pipe(over([target]))
        )
        assert.include(history, "lost thought")
        const sent = target.requests.at(-1)?.request.prompt
        assert.strictEqual(sent?.content.length, 3)
        const printed = JSON.stringify(sent)
        assert.notInclude(printed, "lost thought")
        assert.notInclude(printed, "outlast")
        assert.include(printed, "good thought")
        assert.include(printed, '"vendor":{"signature":"s2"}')
      }
    })
  )

  it.effect("an answer of two targets is one message with one text, and names the last target", () =>
    Effect.gen(function* () {
      const first = played({ streams: [say(text.start(), text.delta("hel"), 1, text.delta("lo "))] })
      const second = played({ model: "m2", streams: [say(...text.block("there"), finish()), hello] })
      // The first target is asked three times. Text that it repeats before a cut is dropped.
      const by = yield* inTime(
        Effect.gen(function* () {
          const chat = yield* Chat.empty
          const parts = yield* Stream.runCollect(chat.streamText({ prompt: "first" }))
          yield* Stream.runDrain(chat.streamText({ prompt: "second" }))
          return Outlast.answeredBy(parts)
        }).pipe(over([first, second]))
      )
      // Network errors make the call leave the first target after five seconds of patience.
      assert.deepInclude(Option.getOrThrow(by), {
        requested: "vendor/m",
        target: "vendor/m2",
        switched: "Network"
      })
      const answer = second.requests.at(-1)?.request.prompt.content[1]
      assert.isTrue(answer?.role === "assistant")
      assert.deepStrictEqual(
        answer?.role === "assistant" &&
          answer.content.map((part) => (part.type === "text" ? part.text : part.type)),
        ["hello there"]
      )
    })
  )
})

describe("the join of a continued answer", () => {
  const said = "The quick brown fox jumps over the lazy dog"
  const cut = say(text.start(), text.delta(said))

  it.effect("repeated text appears once, in the same block (BerriAI/litellm#32835)", () =>
    Effect.gen(function* () {
      const again = say(
        text.start(),
        text.delta("Here is the rest:\n\nfox jumps "),
        text.delta("over the lazy dog, and"),
        text.delta(" sleeps."),
        text.end(),
        finish()
      )
      const parts = yield* read([played({ streams: [cut, again] })])
      assert.deepStrictEqual(
        parts.map((part) => (part.type === "text-delta" ? part.delta : part.type)),
        ["text-start", said, ", and", " sleeps.", "text-end", "finish"]
      )
    })
  )

  it.effect("text is held back only until the join is decided", () =>
    Effect.gen(function* () {
      const slowly = say(
        text.start(),
        ...["fox jumps ", "over the lazy ", "dog,", " and", " sleeps."].flatMap((delta) => [
          10_000,
          text.delta(delta)
        ]),
        10_000,
        finish()
      )
      const seen: Array<readonly [number, string]> = []
      yield* inTime(
        asked.pipe(
          Stream.runForEach((part) =>
            part.type === "text-delta"
              ? Effect.map(Clock.currentTimeMillis, (time) => seen.push([time, part.delta]))
              : Effect.void
          ),
          over([played({ streams: [cut, slowly] })])
        )
      )
      // The first second is the wait before the second attempt.
      assert.deepStrictEqual(seen, [
        [0, said],
        [31_000, ","],
        [41_000, " and"],
        [51_000, " sleeps."]
      ])
    })
  )

  it.effect("held text ends the silence and the wait for the first token", () =>
    Effect.gen(function* () {
      const slowly = say(50_000, text.start(), text.delta("fox jumps"), 50_000, text.delta(" over"), 50_000)
      const rest = say(text.delta(" the lazy dog."), text.end(), finish())
      const { layer, of } = recording()
      const target = played({ streams: [cut, Stream.concat(slowly, rest)] })
      assert.strictEqual(textOf(yield* Effect.provide(read([target]), layer)), `${said}.`)
      assert.strictEqual(of("AttemptFailed").length, 1)
      const silence = say(text.start(), text.delta("fox jumps"), 60_001, ...text.block("late"), finish())
      const late = recording()
      yield* Effect.provide(Effect.exit(read([played({ streams: [cut, silence] })])), late.layer)
      assert.deepStrictEqual(
        late
          .of("AttemptFailed")
          .map(({ rule }) => rule)
          .slice(0, 2),
        ["stream/cut", "limit/idle"]
      )
    })
  )

  it.effect("an attempt that is cut while its text is held back shows no text", () =>
    Effect.gen(function* () {
      const half = say(text.start(), text.delta("fox jumps over"))
      const rest = say(...text.block(", and sleeps."), finish())
      const target = played({ streams: [cut, half, rest] })
      assert.strictEqual(textOf(yield* read([target])), `${said}, and sleeps.`)
      const [partial] = target.requests[2]?.request.prompt.content.slice(1) ?? []
      assert.include(JSON.stringify(partial), `"${said}"`)
    })
  )

  it.effect("the usage and cost include failed attempts", () =>
    Effect.gen(function* () {
      const failed = say(text.start(), text.delta(said), finish("error", 30))
      const rest = say(...text.block(", and sleeps."), finish("stop", 12))
      const price = { input: 0, output: 1 }
      const parts = yield* read([played({ streams: [failed, rest], info: { price } })])
      const last = parts.at(-1)
      assert.isTrue(last?.type === "finish")
      if (last?.type !== "finish") return
      assert.deepInclude(last.usage.outputTokens, { total: 42, text: 42, reasoning: undefined })
      assert.deepInclude(last.usage.inputTokens, { total: 0 })
      assert.approximately(Option.getOrThrow(Outlast.answeredBy(parts)).costUsd ?? 0, 42 / 1e6, 1e-12)
    })
  )
})

describe("a stream that the consumer stops reading", () => {
  it.effect("ends the request", () =>
    Effect.gen(function* () {
      let closed = false
      const endless = Stream.concat(say(...text.block("a")), silent).pipe(
        Stream.ensuring(Effect.sync(() => (closed = true)))
      )
      const target = played({ streams: [endless] })
      yield* asked.pipe(Stream.take(1), Stream.runDrain, over([target]))
      assert.isTrue(closed)
      assert.strictEqual(target.requests.length, 1)
    })
  )

  it.effect("a provider's failure becomes the chain's, also before the first part", () =>
    Effect.gen(function* () {
      const target = played({ streams: [Stream.fail(failure(new FailoverReason.ContentPolicy()))] })
      const { failed } = yield* ending([target])
      assert.isTrue(failed._tag === "ProviderFailure" && failed.reason._tag === "ContentPolicy")
      assert.strictEqual(failed._tag === "ProviderFailure" && failed.target?.id, "vendor/m")
    })
  )
})
