/**
 * The runs of one set of settings. Each `generateText` and each `streamText` is a run, also when several use the same
 * settings at once.
 *
 * The AI SDK passes no name of a run to tools and models. It passes the same list of steps to each `prepareStep` of a
 * run, and the messages of a step to its tools: these tell runs apart.
 */
import type { ModelMessage } from "ai"
import type { Run } from "./Run.ts"

export class Runs {
  readonly #begin: () => Run
  readonly #bySteps = new WeakMap<object, Run>()
  readonly #byMessages = new WeakMap<object, Run>()
  #last: Run | undefined

  constructor(begin: () => Run) {
    this.#begin = begin
  }

  /** The run that began last, for calls that name none: a `prepareStep` of the program has replaced ours. */
  get last(): Run {
    return (this.#last ??= this.#begin())
  }

  /** The run of a step. */
  ofStep(steps: object, initialMessages: object): Run {
    const known = this.#bySteps.get(steps)
    if (known !== undefined) return known
    // Approved calls ran before the first step.
    const run = this.#byMessages.get(initialMessages) ?? this.#begin()
    this.#byMessages.delete(initialMessages)
    this.#bySteps.set(steps, run)
    this.#last = run
    return run
  }

  /** Notes the messages of a step, which its tools get. */
  asked(run: Run, messages: object): void {
    this.#byMessages.set(messages, run)
  }

  /** The run of a tool call. */
  ofTool(messages: ReadonlyArray<ModelMessage>): Run {
    const known = this.#byMessages.get(messages)
    if (known !== undefined || !isApproved(messages)) return known ?? this.last
    const run = this.#begin()
    this.#byMessages.set(messages, run)
    return run
  }
}

/** True for messages that end with approvals, whose calls run before the first step. */
const isApproved = (messages: ReadonlyArray<ModelMessage>): boolean => {
  const last = messages.at(-1)
  return last?.role === "tool" && last.content.some(({ type }) => type === "tool-approval-response")
}
