/**
 * An agent whose runs are durable tasks: its name, the Schema of its parameters, and its tools.
 *
 * `submit` and `result` are for every process with a `Tasks` layer. `toLayer` makes a process a worker for the agent.
 *
 * **Versions.** A task keeps the version with which it was submitted, and only a worker with that version runs it. Change
 * the version when the parameters, the tools or the options of the run change in a way that a task under way must not
 * see.
 *
 * **Example** (An agent, and a worker for it)
 *
 * ```ts
 * const Triage = Task.make("triage", { version: 1, params: Ticket, toolkit: Workspace })
 * const Worker = Triage.toLayer((ticket) => ({ prompt: `Triage this ticket: ${ticket.text}` }))
 *
 * const id = yield* Triage.submit({ params: { text: "It does not start." }, key: "ticket-4711" })
 * const { text } = yield* Triage.result(id)
 * ```
 */
import { Clock, Effect, Layer, Predicate, Schema } from "effect"
import { Prompt, Toolkit } from "effect/ai"
import type { LanguageModel, Tool } from "effect/ai"
import { Agent } from "@outlast/agent"
import type { Outcome } from "@outlast/agent"
import { Backoff, Options as Check } from "@outlast/resilience"
import type { StoreError } from "@outlast/resilience"
import * as Restart from "./restart/Restart.ts"
import type { KeyReused, NoSuchTask, QueueFull } from "./state/TaskErrors.ts"
import type { TaskFailed } from "./state/TaskState.ts"
import { promptJson } from "./state/TaskState.ts"
import type { Workers } from "./Tasks.ts"
import { Tasks } from "./Tasks.ts"
import type { Killed } from "./worker/Definition.ts"
import { Worker } from "./worker/Worker.ts"

export interface Options<P extends Schema.Top, Tools extends Record<string, Tool.Any>> {
  /** A positive integer. */
  readonly version: number
  /** Schema of the parameters. They are stored as JSON. */
  readonly params: P
  /** Default: no tools. */
  readonly toolkit?: Toolkit.Toolkit<Tools> | undefined
  /** Restarts after a failure that may pass by itself. Default: {@link Restart.defaults}. `false`: never. */
  readonly restarts?: Partial<Restart.Policy> | false | undefined
  /**
   * What becomes of a task whose tool or question has killed its process three times with nothing beside it. `fail`: it fails with
   * `KilledItsProcess`. `ask`: it is `InDoubt`, and a person decides. Default `fail`.
   */
  readonly killed?: Killed | undefined
}

/** How one task runs: its prompt, and options of `Agent.run`. */
export type RunOptions<Tools extends Record<string, Tool.Any>> = Omit<
  Agent.DurableOptions<Tools>,
  "toolkit" | "cancel"
>

export interface Submission<Params> {
  readonly params: Params
  /** Identifies the task among those of its agent: submitted twice it is one task. */
  readonly key: string
  /** A conversation to continue, instead of the prompt that the worker makes. */
  readonly history?: Prompt.RawInput | undefined
}

export interface Task<Name extends string, P extends Schema.Top, Tools extends Record<string, Tool.Any>> {
  readonly name: Name
  readonly version: number
  readonly params: P
  readonly toolkit: Toolkit.Toolkit<Tools>
  readonly restarts: Restart.Policy
  /** The id of the task with a key. */
  readonly idOf: (key: string) => string
  /** Queues a task. Returns its id. A task with this key and these parameters that is there already is that task. */
  readonly submit: (
    submission: Submission<P["Type"]>
  ) => Effect.Effect<string, QueueFull | KeyReused | StoreError.StoreError, Tasks | P["EncodingServices"]>
  /** Waits for the end of a task. */
  readonly result: (
    id: string
  ) => Effect.Effect<Outcome.Outcome, TaskFailed | NoSuchTask | StoreError.StoreError, Tasks>
  /** Makes this process a worker for the agent. */
  readonly toLayer: (
    run: (params: P["Type"]) => RunOptions<Tools>
  ) => Layer.Layer<
    never,
    never,
    | Workers
    | LanguageModel.LanguageModel
    | Tool.HandlersFor<Tools>
    | Tool.HandlerServices<Tools[keyof Tools]>
    | P["DecodingServices"]
  >
}

/** Describes an agent. Throws an `InvalidOption` for an option that is not allowed. */
export const make = <
  const Name extends string,
  P extends Schema.Top,
  Tools extends Record<string, Tool.Any> = {}
>(
  name: Name,
  options: Options<P, Tools>
): Task<Name, P, Tools> => {
  Check.check(/^[\w.-]{1,100}$/.test(name), "Task", "name", name, "1 to 100 letters, digits, _, . or -")
  Check.fields<Options<P, Tools>>("Task", options, {
    version: Check.is.required(Check.is.integer({ min: 1 })),
    params: Check.is.required((module, field, value) =>
      Check.check(Schema.isSchema(value), module, field, value, "a Schema")
    ),
    toolkit: (module, field, value) =>
      Check.check(Predicate.hasProperty(value, "tools"), module, field, value, "a Toolkit"),
    killed: Check.is.oneOf("fail", "ask"),
    restarts: Check.is.falseOr(
      Check.is.object<Partial<Restart.Policy>>({
        max: Check.is.integer({ min: 0, max: 100 }),
        backoff: Backoff.isBackoff
      })
    )
  })
  const { version, params, killed = "fail" } = options
  // Without a toolkit there are no tools, which is what `Tools` is by default.
  const toolkit = options.toolkit ?? (Toolkit.empty as unknown as Toolkit.Toolkit<Tools>)
  const restarts: Restart.Policy =
    options.restarts === false ? Restart.never : { ...Restart.defaults, ...options.restarts }
  const json = Schema.fromJsonString(Schema.toCodecJson(params))
  const idOf = (key: string): string => `${name}/${key}`
  return {
    name,
    version,
    params,
    toolkit,
    restarts,
    idOf,
    submit: ({ params, key, history }) =>
      Effect.gen(function* () {
        Check.check(key.length > 0 && key.length <= 500, "Task", "key", key, "1 to 500 characters")
        const written = yield* Effect.orDie(Schema.encodeEffect(json)(params))
        const said = history === undefined ? undefined : Schema.encodeSync(promptJson)(Prompt.make(history))
        const hash = yield* digest(`${written}\n${said ?? ""}`)
        const at = yield* Clock.currentTimeMillis
        const id = idOf(key)
        const { submit } = yield* Tasks
        yield* submit({ id, task: name, version, key, hash, params: written, history: said, at })
        return id
      }),
    result: (id) => Effect.flatMap(Tasks, ({ result }) => result(id)),
    toLayer: (run) =>
      Layer.effectDiscard(
        Effect.gen(function* () {
          const { register } = yield* Worker
          const services = yield* Effect.context<Agent.Services<Tools> | P["DecodingServices"]>()
          yield* register({
            task: name,
            version,
            restarts,
            killed,
            tools: Object.values(toolkit.tools),
            run: ({ params, history, steps, cancel }) =>
              Effect.gen(function* () {
                const own = yield* Effect.orDie(Schema.decodeUnknownEffect(json)(params))
                const options = run(own)
                const prompt =
                  history === undefined
                    ? options.prompt
                    : yield* Effect.orDie(Schema.decodeUnknownEffect(promptJson)(history))
                return yield* Agent.durable({ ...options, prompt, toolkit, cancel }, steps)
              }).pipe(Effect.provideContext(services))
          })
        })
      )
  }
}

/** SHA-256 in hexadecimal. */
const digest = (text: string): Effect.Effect<string> =>
  Effect.map(
    Effect.promise(() => globalThis.crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))),
    (bytes) => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("")
  )
