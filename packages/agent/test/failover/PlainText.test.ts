import { assert, it } from "@effect/vitest"
import type { Context } from "effect"
import { Cause, Effect, Exit, Schema, Tracer } from "effect"
import { IdGenerator, LanguageModel, Prompt, ResponseIdTracker, Telemetry, Tool, Toolkit } from "effect/ai"
import type { Response } from "effect/ai"
import * as fc from "fast-check"
import { over, resumed } from "#agent/failover/call/PlainText"
import * as Sweeps from "../../../../test/sweeps.ts"

type Parts = Array<Response.PartEncoded>
type Hook = Parameters<typeof LanguageModel.make>[0]["generateText"]
/** Options of `generateText`, without the types that go from a toolkit to its results. */
type Options = Readonly<Record<string, unknown>> & { readonly prompt: Prompt.RawInput }

// -----------------------------------------------------------------------------
// Generated answers
// -----------------------------------------------------------------------------

const json = fc.jsonValue({ maxDepth: 2 })
/** Nested deeper than any provider nests. */
const deep = Array.from({ length: 12 }).reduce<unknown>((inner) => ({ inner }), "core")
const metadata = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.dictionary(fc.constantFrom("outlast", "openai", "anthropic"), json, { maxKeys: 2 })
  },
  fc.constantFrom<unknown>(
    undefined,
    null,
    "text",
    { outlast: deep },
    { openai: { reason: undefined } },
    { openai: [Number.NaN] },
    { openai: new Date(0) },
    new Map()
  )
)
const count = fc.oneof(
  { weight: 20, arbitrary: fc.option(fc.nat(), { nil: undefined }) },
  fc.constantFrom<unknown>(1.5, -1, Number.NaN, "3", null)
)

const part = fc.oneof(
  { weight: 3, arbitrary: fc.record({ type: fc.constant("text"), text: fc.string(), metadata }) },
  fc.record({ type: fc.constant("reasoning"), text: fc.string(), metadata }),
  fc.record({
    type: fc.constant("file"),
    mediaType: fc.constant("image/png"),
    data: fc.base64String(),
    metadata
  }),
  fc.record({
    type: fc.constant("source"),
    sourceType: fc.constant("url"),
    id: fc.string(),
    url: fc.webUrl(),
    title: fc.string(),
    metadata
  }),
  fc.record(
    {
      type: fc.constant("response-metadata"),
      id: fc.option(fc.string(), { nil: undefined }),
      modelId: fc.string(),
      timestamp: fc.constantFrom(
        "2026-11-28T12:00:00.000Z",
        "2026-11-28",
        "1 May 2026",
        "",
        "never",
        undefined
      ),
      metadata
    },
    { requiredKeys: ["type", "modelId"] }
  ),
  {
    weight: 2,
    arbitrary: fc.record(
      {
        type: fc.constant("tool-call"),
        id: fc.string(),
        name: fc.constantFrom("read", "search", "unknown"),
        params: fc.oneof(fc.constantFrom({ path: "a.ts" }, { path: "a.ts", more: 1 }, "not JSON"), json),
        providerExecuted: fc.constantFrom(false, true, undefined),
        metadata
      },
      { requiredKeys: ["type", "id", "name"] }
    )
  },
  fc.record({
    type: fc.constant("tool-result"),
    id: fc.string(),
    name: fc.string(),
    result: json,
    isFailure: fc.boolean(),
    providerExecuted: fc.boolean()
  }),
  fc.record({
    type: fc.constant("finish"),
    reason: fc.constantFrom("stop", "length", "tool-calls", "unheard-of"),
    usage: fc.record({
      inputTokens: fc.record(
        { uncached: count, total: count, cacheRead: count, cacheWrite: count },
        { requiredKeys: ["total"] }
      ),
      outputTokens: fc.record({ total: count, text: count, reasoning: count, more: count })
    }),
    response: fc.constant(undefined),
    metadata
  }),
  // What no provider may send.
  fc.record({ type: fc.constantFrom("text", "finish", "error", "else"), wrong: json }),
  json
)

// An answer of a provider that is written in JavaScript.
const answers = fc.array(part, { maxLength: 4 }) as unknown as fc.Arbitrary<Parts>

const read = Tool.make("read", { parameters: Schema.Struct({ path: Schema.String }), success: Schema.String })
const search = Tool.dynamic("search", {
  parameters: { type: "object", properties: { text: { type: "string" } } }
})
const kit = Toolkit.make(read)
const tools = { tools: Toolkit.make(read, search).tools, handle: () => never }

// -----------------------------------------------------------------------------
// Both paths
// -----------------------------------------------------------------------------

interface Seen {
  readonly exit: unknown
  readonly requests: ReadonlyArray<unknown>
  readonly spans: ReadonlyArray<unknown>
}

/** The causes without their stacks. */
const errorOf = ({ cause }: Exit.Failure<unknown, unknown>): unknown =>
  JSON.parse(JSON.stringify(cause.reasons.map((reason) => [reason, String(Cause.squash(cause))])))

/** What a call with this model gives, sends and traces. */
const seen = (
  make: (hook: Hook) => Effect.Effect<Context.Service.Shape<typeof LanguageModel.LanguageModel>>,
  hook: Hook,
  options: Options
): Effect.Effect<Seen> =>
  Effect.gen(function* () {
    const requests: Array<unknown> = []
    const spans: Array<Tracer.NativeSpan> = []
    const tracer = Tracer.make({
      span: (given) => {
        const span = new Tracer.NativeSpan(given)
        spans.push(span)
        return span
      }
    })
    const model = yield* make((request) => {
      const { span, ...rest } = request
      requests.push({ ...rest, span: span.name })
      return hook(request)
    })
    const exit = yield* Effect.exit(model.generateText(options as never) as Effect.Effect<unknown>).pipe(
      Effect.withTracer(tracer)
    )
    return {
      exit: Exit.isSuccess(exit) ? exit.value : errorOf(exit),
      requests,
      spans: spans.map(({ name, kind, attributes, status }) => ({
        name,
        kind,
        attributes: [...attributes],
        ended: status._tag
      }))
    }
  })

const theirs = (hook: Hook) => LanguageModel.make({ generateText: hook, streamText: () => never })
const ours = (hook: Hook) => Effect.flatMap(theirs(resumed(hook)), (model) => over(model, hook))
const never = (() => {
  throw new Error("Not streamed.")
}) as never

const same = (hook: Hook, options: Options) =>
  Effect.gen(function* () {
    const expected = yield* seen(theirs, hook, options)
    assert.deepStrictEqual(yield* seen(ours, hook, options), expected)
    return expected
  })

const prompts: ReadonlyArray<Prompt.RawInput> = [
  "hello",
  [{ role: "user", content: [{ type: "text", text: "hello" }] }],
  Prompt.make("hello")
]
const unchecked = { disableToolCallResolution: true, toolCallValidation: "deferred" } as const

it.effect("generated answers give the same parts, errors, requests and spans as effect/ai", () =>
  Effect.gen(function* () {
    let failed = 0
    let answered = 0
    const cases = fc.sample(fc.tuple(answers, fc.constantFrom(...prompts), fc.nat(7)), {
      numRuns: Sweeps.runs(800),
      seed: 7
    })
    for (const [parts, prompt, kind] of cases) {
      const options = [
        { prompt },
        { prompt, toolkit: { tools: {}, handle: () => never } },
        { prompt, ...unchecked },
        { prompt, toolChoice: "required", concurrency: 3, disableToolCallResolution: true },
        { prompt, toolkit: tools, disableToolCallResolution: true },
        { prompt, toolkit: Effect.succeed(tools), toolChoice: { oneOf: ["read"] }, ...unchecked },
        { prompt, toolkit: tools, toolChoice: { tool: "read" }, ...unchecked },
        {
          prompt,
          toolkit: Effect.succeed({ tools: {}, handle: () => never }),
          disableToolCallResolution: true
        }
      ][kind]
      const { exit } = yield* same(() => Effect.succeed(parts), options as never)
      if (exit instanceof LanguageModel.GenerateTextResponse) answered++
      else failed++
    }
    // Both ends are met often.
    assert.isAbove(answered, 50)
    assert.isAbove(failed, 50)
  })
)

it.effect("wrong arguments of a call that the provider ran fail an unchecked call, too", () =>
  Effect.gen(function* () {
    for (const params of [{ path: "a.ts" }, { path: 7 }]) {
      const call = { type: "tool-call", id: "1", name: "read", params, providerExecuted: true } as const
      const { exit } = yield* same(() => Effect.succeed([call]), {
        prompt: "hello",
        toolkit: tools,
        ...unchecked
      })
      assert.strictEqual(exit instanceof LanguageModel.GenerateTextResponse, params.path === "a.ts")
    }
  })
)

it.effect("failures and defects of the hook, and prompts that are none, end the same way", () =>
  Effect.gen(function* () {
    const answer: Parts = [{ type: "text", text: "hello" }]
    yield* same(() => Effect.die("defect"), { prompt: "hello" })
    yield* same(() => Effect.interrupt, { prompt: "hello" })
    yield* same(
      () => {
        throw new TypeError("thrown")
      },
      { prompt: "hello" }
    )
    const wrong = yield* Effect.exit(
      Effect.flatMap(
        ours(() => Effect.succeed(answer)),
        (model) => model.generateText({ prompt: 7 as never })
      )
    )
    assert.isTrue(Exit.hasDies(wrong))
  })
)

it.effect("calls that effect/ai treats otherwise are left to it", () =>
  Effect.gen(function* () {
    const asked: Array<string> = []
    const model = yield* theirs(() => Effect.succeed([{ type: "text", text: "hello" }]))
    const watched = {
      ...model,
      generateText: (options: never) => {
        asked.push("effect/ai")
        return model.generateText(options)
      }
    } as unknown as typeof model
    const plain = yield* over(watched, () => {
      asked.push("plain")
      return Effect.succeed([{ type: "text", text: "hello" }])
    })
    const approval = Prompt.make([
      { role: "user", content: [{ type: "text", text: "hello" }] },
      { role: "tool", content: [{ type: "tool-approval-response", approvalId: "1", approved: true }] }
    ])
    const handlers = yield* Effect.provide(kit, kit.toLayer({ read: () => Effect.succeed("") }))
    yield* plain.generateText({ prompt: "hello" })
    yield* plain.generateText({ prompt: approval })
    yield* plain.generateText({ prompt: "hello", toolkit: handlers })
    yield* Effect.provide(
      plain.generateText({ prompt: "hello", toolkit: kit }),
      kit.toLayer({ read: () => Effect.succeed("") })
    )
    const tracker = yield* ResponseIdTracker.make
    yield* Effect.provideService(
      plain.generateText({ prompt: "hello" }),
      ResponseIdTracker.ResponseIdTracker,
      tracker
    )
    yield* Effect.provideService(
      plain.generateText({ prompt: "hello" }),
      Telemetry.CurrentSpanTransformer,
      () => {}
    )
    assert.deepStrictEqual(asked, ["plain", ...Array.from({ length: 5 }, () => "effect/ai")])
  })
)

it.effect("the hook gets the id generator of the place where the model was made", () =>
  Effect.gen(function* () {
    const generator = (id: string) => ({ generateId: () => Effect.succeed(id) })
    const ids: Array<string> = []
    const hook: Hook = () =>
      Effect.gen(function* () {
        const { generateId } = yield* IdGenerator.IdGenerator
        ids.push(yield* generateId())
        return []
      })
    for (const make of [theirs, ours]) {
      const model = yield* Effect.provideService(make(hook), IdGenerator.IdGenerator, generator("made"))
      yield* Effect.provideService(
        model.generateText({ prompt: "hello" }),
        IdGenerator.IdGenerator,
        generator("called")
      )
    }
    assert.deepStrictEqual(ids, ["made", "made"])
  })
)
