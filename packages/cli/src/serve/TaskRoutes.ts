/**
 * `/api/tasks`: takes prompts as durable tasks, and shows, watches and cancels them.
 *
 * A task outlives its connection and its process. A submission that is repeated with its key is the same task. One
 * without a key gets a random one.
 */
import { Deferred, Effect, Option, Schema, Stream } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import type { Inbound } from "@outlast/agent/guard"
import { Host } from "@outlast/node"
import { Ops } from "@outlast/node/ops"
import { Tasks } from "@outlast/tasks"
import * as Report from "../tasks/Report.ts"
import * as Frames from "./Frames.ts"
import * as PromptTask from "./PromptTask.ts"
import { answered, json, prompt, Refused, withPrompt } from "./Requests.ts"

/** Readers of events of tasks at a time. */
const maxReaders = 20

const client = "a client of outlast serve"

const Submission = Schema.Struct({ ...prompt, key: Schema.optional(PromptTask.Key) })

const expected =
  'Send { "prompt": TEXT, "key"?: TEXT }; a key has 1 to 80 letters, digits, _, . or -, and no other fields.'

const path = (id: string): string => `/api/tasks/${encodeURIComponent(id)}`

/** The answers to the errors of tasks. */
const statuses = { NoSuchTask: 404, KeyReused: 409, QueueFull: 503, StoreError: 503 } as const

const refused = (error: { readonly _tag: keyof typeof statuses; readonly message: string }) =>
  new Refused({ status: statuses[error._tag], message: error.message })

const idOf = Effect.map(HttpRouter.params, ({ id = "" }) => id)

/** How the task has ended; `undefined` while it has not. */
const endOf = (tasks: Tasks.Service, id: string) =>
  tasks.result(id).pipe(
    Effect.map((outcome): Report.End => ({ outcome })),
    Effect.catchTag("TaskFailed", (failure) => Effect.succeed<Report.End>({ failure }))
  )

const statusOf = (tasks: Tasks.Service, id: string) =>
  Effect.flatMap(
    Effect.mapError(tasks.status(id), refused),
    Option.match({
      onNone: () =>
        Effect.fail(new Refused({ status: 404, message: "There is no such task. It may have been pruned." })),
      onSome: Effect.succeed
    })
  )

const shown = (tasks: Tasks.Service) =>
  Effect.gen(function* () {
    const id = yield* idOf
    const status = yield* statusOf(tasks, id)
    const end = Report.hasEnded(status.state) ? yield* Effect.mapError(endOf(tasks, id), refused) : undefined
    return json(200, Report.full(status, end, true))
  })

/** The states and parts of a task, and at last its end. */
const framesOf = (tasks: Tasks.Service, id: string) => {
  const states = Stream.map(tasks.watch(id), (status) => Frames.frame("state", Report.summary(status)))
  const parts = tasks.parts(id).pipe(
    Stream.filter(({ type }) => type !== "outcome"),
    Stream.map(Frames.ofPart),
    Stream.filter((frame) => frame !== undefined)
  )
  const end = Effect.map(endOf(tasks, id), (end) =>
    end.outcome === undefined
      ? Frames.frame("failed", { message: end.failure.message })
      : Frames.frame("outcome", { status: end.outcome.status, text: end.outcome.text })
  )
  return Stream.merge(states, parts).pipe(
    Stream.concat(Stream.fromEffect(end)),
    Stream.catch(({ message }) => Stream.succeed(Frames.frame("failed", { message })))
  )
}

/** The routes over the tasks of this process. Their readers end when the shutdown begins. */
export const make = (inbound: Inbound.Inbound) =>
  Effect.gen(function* () {
    const tasks = yield* Tasks.Tasks
    const context = yield* Effect.context<Tasks.Tasks | Host.Host>()
    const ending = yield* Deferred.make<void>()
    yield* Host.onShutdown("intake", {
      name: "readers of tasks",
      run: Deferred.succeed(ending, undefined)
    })
    let readers = 0

    const submit = withPrompt(inbound, Submission, expected, (prompt, { key }) =>
      PromptTask.PromptTask.submit({
        params: { prompt },
        key: key ?? globalThis.crypto.randomUUID()
      }).pipe(
        Effect.map((id) => json(202, { id }, { location: path(id) })),
        Effect.mapError(refused)
      )
    )
    const watch = Effect.gen(function* () {
      const id = yield* idOf
      yield* statusOf(tasks, id)
      if (readers >= maxReaders) {
        return yield* new Refused({ status: 503, message: "Too many readers of tasks. Try again later." })
      }
      const frames = framesOf(tasks, id).pipe(
        Stream.interruptWhen(Deferred.await(ending)),
        Stream.concat(
          Stream.suspend(() =>
            Deferred.isDoneUnsafe(ending) ? Stream.succeed(Frames.frame("shutdown", {})) : Stream.empty
          )
        ),
        Stream.onStart(Effect.sync(() => void readers++)),
        Stream.ensuring(Effect.sync(() => void readers--)),
        Stream.encodeText
      )
      return HttpServerResponse.stream(frames, { contentType: "text/event-stream; charset=utf-8" })
    })
    const cancel = Effect.gen(function* () {
      const id = yield* idOf
      yield* Effect.mapError(tasks.cancel(id, client), refused)
      return json(202, { id })
    })
    return Ops.routes([
      HttpRouter.route("POST", "/api/tasks", Effect.provideContext(submit, context)),
      HttpRouter.route("GET", "/api/tasks/:id", answered(shown(tasks))),
      HttpRouter.route("DELETE", "/api/tasks/:id", answered(cancel)),
      HttpRouter.route("GET", "/api/tasks/:id/events", answered(watch))
    ])
  })
