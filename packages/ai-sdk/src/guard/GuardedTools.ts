/**
 * Tools whose calls are admitted and observed by the guard of their run.
 *
 * A call that is not admitted throws a {@link Refusal}, which the AI SDK gives to the model as the result of the call. A
 * nudge is added to what the model reads of a result (`toModelOutput`); the output that the program reads stays as it
 * is. Tools without `execute`, and tools that a provider runs, are returned as they are.
 */
import type { LoopGuard } from "@outlast/agent/internal"
import type { ModelMessage, ToolSet } from "ai"
import { Refusal } from "./Refusal.ts"
import type { Run } from "./Run.ts"
import { Inside } from "./Run.ts"

/** Finds the run of a tool call by the messages that the AI SDK passes to it. */
export type RunOf = (messages: ReadonlyArray<ModelMessage>) => Run

export const guarded = <TOOLS extends ToolSet>(tools: TOOLS, runOf: RunOf): TOOLS => {
  const wrapped = Object.entries(tools).map(([name, tool]) => [name, wrap(name, tool as AnyTool, runOf)])
  // Each tool keeps its type: only its functions are wrapped.
  return Object.fromEntries(wrapped) as TOOLS
}

/** The functions of any tool. Inputs and outputs pass unchanged. */
interface AnyTool {
  readonly execute?: (input: unknown, options: CallOptions) => unknown
  readonly toModelOutput?: (call: Output) => unknown
  readonly metadata?: unknown
}

interface Output {
  readonly toolCallId: string
  readonly input: unknown
  readonly output: unknown
}

interface CallOptions {
  readonly toolCallId: string
  readonly messages: ReadonlyArray<ModelMessage>
}

const wrap = (name: string, tool: AnyTool, runOf: RunOf): unknown => {
  const { execute, toModelOutput, metadata } = tool
  if (execute === undefined) return tool
  const hints = hintsOf(metadata)
  /** Nudges of calls by their input, until the AI SDK asks what the model shall read. */
  const nudges = new WeakMap<object, string>()
  return {
    ...tool,
    // Not async: the AI SDK tells by the value whether the tool streams its output.
    execute: (input: unknown, options: CallOptions) => {
      const run = runOf(options.messages)
      const call: LoopGuard.Call = { id: options.toolCallId, name, params: input, hints }
      const admitted = run.guard.call(call)
      if (admitted._tag === "Blocked") throw new Refusal(admitted.message)
      if (admitted._tag === "Stopped") {
        throw new Refusal(run.stopped?.message ?? "The run was stopped: this call was not run.")
      }
      if (admitted.nudge !== undefined && isObject(input)) nudges.set(input, admitted.nudge)
      return observed(() => execute.call(tool, input, options), admitted)
    },
    toModelOutput: async (call: Output) => {
      const output = toModelOutput === undefined ? usual(call.output) : await toModelOutput.call(tool, call)
      const nudge = isObject(call.input) ? nudges.get(call.input) : undefined
      return nudge === undefined ? output : withNote(output, nudge)
    }
  }
}

/** Runs a tool and reports how it ends. */
const observed = (execute: () => unknown, running: LoopGuard.Running): unknown => {
  const inside = new Inside(running.inside)
  const ended = (encoded: unknown, isFailure: boolean) => {
    inside.end()
    running.ended({ encoded, isFailure })
  }
  const failed = (error: unknown) => ended(String(error), true)
  let output: unknown
  try {
    output = inside.run(execute)
  } catch (error) {
    failed(error)
    throw error
  }
  if (isAsyncIterable(output)) return streamed(output, inside, ended)
  return Promise.resolve(output).then(
    (value) => {
      ended(value, false)
      return value
    },
    (error: unknown) => {
      failed(error)
      throw error
    }
  )
}

/** Outputs of a tool that streams them. The last one is its result. */
async function* streamed(
  outputs: AsyncIterable<unknown>,
  inside: Inside,
  ended: (encoded: unknown, isFailure: boolean) => void
): AsyncGenerator<unknown> {
  const iterator = outputs[Symbol.asyncIterator]()
  let last: unknown
  let failure: { readonly error: unknown } | undefined
  let isDone = false
  try {
    while (true) {
      const next = await inside.run(() => iterator.next())
      if (next.done === true) {
        isDone = true
        return
      }
      last = next.value
      yield last
    }
  } catch (error) {
    failure = { error }
    isDone = true
    throw error
  } finally {
    // The consumer may leave before the end.
    if (!isDone) await inside.run(() => iterator.return?.())
    ended(failure === undefined ? last : String(failure.error), failure !== undefined)
  }
}

/** What the AI SDK makes of an output without `toModelOutput`. */
const usual = (output: unknown): unknown => {
  if (typeof output === "string") return { type: "text", value: output }
  const written = JSON.stringify(output)
  return { type: "json", value: written === undefined ? null : JSON.parse(written) }
}

/** An output for the model, with a note behind it. */
const withNote = (output: unknown, note: string): unknown => {
  if (!isObject(output) || !("type" in output)) return output
  const value: unknown = "value" in output ? output.value : undefined
  switch (output.type) {
    case "text":
    case "error-text":
      return { ...output, value: `${String(value)}\n\n${note}` }
    case "json":
    case "error-json": {
      const type = output.type === "json" ? "text" : "error-text"
      return { ...output, type, value: `${JSON.stringify(value)}\n\n${note}` }
    }
    case "content":
      return { ...output, value: [...(Array.isArray(value) ? value : []), { type: "text", text: note }] }
    default:
      return output
  }
}

/** The hints of an MCP tool. */
const hintsOf = (metadata: unknown): LoopGuard.Call["hints"] => {
  const annotations = isObject(metadata) && "annotations" in metadata ? metadata.annotations : undefined
  if (!isObject(annotations)) return undefined
  const flag = (name: string): boolean | undefined => {
    const value: unknown = Reflect.get(annotations, name)
    return typeof value === "boolean" ? value : undefined
  }
  return {
    readOnlyHint: flag("readOnlyHint"),
    idempotentHint: flag("idempotentHint"),
    destructiveHint: flag("destructiveHint")
  }
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null

const isAsyncIterable = (value: unknown): value is AsyncIterable<unknown> =>
  isObject(value) && Symbol.asyncIterator in value
