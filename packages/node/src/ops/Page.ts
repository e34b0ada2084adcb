/** The routes of the status page: its files, `/events`, `/api/state` and the actions of operators. */
import { Clock, Effect, Layer, Redacted, Result } from "effect"
import { HttpEffect, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { EventDefinition, ResilienceEvents, Warnings } from "@outlast/resilience"
import { createHash, timingSafeEqual } from "node:crypto"
import { readFileSync } from "node:fs"
import { Host } from "../host/HostService.ts"
import type { Action } from "./Action.ts"
import type { EventFeed } from "./EventFeed.ts"
import type { OperatorAction, Outcome } from "./OpsEvent.ts"
import { definitions } from "./OpsEvent.ts"
import * as Gate from "./RequestGate.ts"

/** On every response. The page runs its own module and nothing else. */
const headers = {
  "cache-control": "no-store",
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff"
} as const

const files = [
  ["/", "index.html", "text/html; charset=utf-8"],
  ["/status.js", "status.js", "text/javascript; charset=utf-8"],
  ["/status.css", "status.css", "text/css; charset=utf-8"]
] as const

const filePaths: ReadonlySet<string> = new Set(files.map(([path]) => path))

/** Milliseconds for which an answer of `/api/state` is shared by all who ask. */
const stateAge = 250

const actionPath = "/api/actions/"

const json = (body: unknown, status = 200) => HttpServerResponse.jsonUnsafe(body, { status })

// -----------------------------------------------------------------------------
// Gate
// -----------------------------------------------------------------------------

/** Compares hashes, which have one length, in constant time. */
export const comparer = (token: Redacted.Redacted): ((candidate: string) => boolean) => {
  const hash = (text: string) => createHash("sha256").update(text).digest()
  const own = hash(Redacted.value(token))
  return (candidate) => timingSafeEqual(own, hash(candidate))
}

const pathOf = (url: string): string => url.split("?", 1)[0] ?? ""

/** Where a request asks for a change, the path decides: a GET of it is refused like a POST. */
const kindOf = ({ method, url }: HttpServerRequest.HttpServerRequest): Gate.Kind => {
  const path = pathOf(url)
  if (path.startsWith(actionPath)) return "change"
  if (method !== "GET" && method !== "HEAD") return "send"
  return filePaths.has(path) ? "open" : "read"
}

/** Refuses what {@link Gate.verdict} refuses, and adds the headers of every response. */
export const gate =
  (policy: Gate.Policy, actions: Readonly<Record<string, Action>>) =>
  <E, R>(app: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
    Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      const kind = kindOf(request)
      yield* HttpEffect.appendPreResponseHandler((_, response) =>
        Effect.succeed(HttpServerResponse.setHeaders(response, headers))
      )
      const refusal = Gate.verdict(policy, {
        kind,
        host: request.headers["host"],
        origin: request.headers["origin"],
        authorization: request.headers["authorization"],
        site: request.headers["sec-fetch-site"],
        contentType: request.headers["content-type"]
      })
      if (refusal === undefined) return yield* app
      if (kind === "change") yield* audit(nameOf(request.url, actions), undefined, "refused")
      return json({ error: refusal.message }, refusal.status)
    })

// -----------------------------------------------------------------------------
// Actions
// -----------------------------------------------------------------------------

/** Only names of the program: the path comes from the request. */
const nameOf = (url: string, actions: Readonly<Record<string, Action>>): string => {
  const name = pathOf(url).slice(actionPath.length)
  return Object.hasOwn(actions, name) ? name : "unknown"
}

const update = EventDefinition.reader(definitions)

const audit = (action: string, subject: string | undefined, outcome: Outcome): Effect.Effect<void> =>
  Effect.gen(function* () {
    const event: OperatorAction = {
      _tag: "OperatorAction",
      at: yield* Clock.currentTimeMillis,
      action,
      subject,
      outcome
    }
    yield* update(event)
    yield* ResilienceEvents.publish(event)
    const line = EventDefinition.lineOf(definitions, event)
    if (line !== undefined) yield* Warnings.log(line)
  })

const acting = (actions: Readonly<Record<string, Action>>) =>
  Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const name = nameOf(request.url, actions)
    const action = Object.hasOwn(actions, name) ? actions[name] : undefined
    if (action === undefined) {
      yield* audit("unknown", undefined, "refused")
      return json({ error: "There is no such action.", actions: Object.keys(actions) }, 404)
    }
    const body = yield* Effect.result(request.json)
    if (Result.isFailure(body)) {
      yield* audit(name, undefined, "refused")
      return json({ error: `The body is not JSON, or too large. ${action.doc}` }, 400)
    }
    // A connection that closes does not leave an action half done.
    const done = yield* Effect.uninterruptible(Effect.result(action.run(body.success)))
    if (Result.isSuccess(done)) {
      yield* audit(name, done.success.subject, "done")
      return json({ result: done.success.result })
    }
    const { message, reason } = done.failure
    yield* audit(name, undefined, reason === "params" ? "refused" : "failed")
    return json({ error: message }, reason === "params" ? 400 : 409)
  })

// -----------------------------------------------------------------------------
// Routes
// -----------------------------------------------------------------------------

export interface Parts {
  readonly name: string
  readonly version: string
  readonly feed: EventFeed
  readonly actions: Readonly<Record<string, Action>>
}

const folder = new URL("../../src/ops/page/", import.meta.url)

/** The routes over the host of the program. */
export const routes = ({
  actions,
  feed,
  name,
  version
}: Parts): Layer.Layer<never, never, HttpRouter.HttpRouter | Host> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const host = yield* Host
      const started = yield* Clock.currentTimeMillis
      const state = yield* Effect.cachedWithTTL(
        Effect.uninterruptible(
          Effect.gen(function* () {
            const [readiness, sections, status, readers] = yield* Effect.all(
              [host.readiness, host.sections, host.status, feed.readers],
              { concurrency: "unbounded" }
            )
            const at = yield* Clock.currentTimeMillis
            const names = Object.entries(actions).map(([name, { doc }]) => ({ name, doc }))
            return JSON.stringify({
              name,
              version,
              started,
              at,
              status,
              readiness,
              readers,
              actions: names,
              sections
            })
          })
        ),
        stateAge
      )
      const events = Effect.gen(function* () {
        const request = yield* HttpServerRequest.HttpServerRequest
        const body = yield* feed.open(request.headers["last-event-id"])
        return body === undefined
          ? HttpServerResponse.setHeaders(
              json({ error: "Too many readers. Close one, or raise `maxReaders`." }, 503),
              {
                "retry-after": "5"
              }
            )
          : HttpServerResponse.raw(body, { contentType: "text/event-stream; charset=utf-8" })
      })
      return HttpRouter.addAll([
        ...files.map(([path, file, contentType]) => {
          const text = readFileSync(new URL(file, folder), "utf8")
          return HttpRouter.route("GET", path, HttpServerResponse.text(text, { contentType }))
        }),
        HttpRouter.route("GET", "/events", events),
        HttpRouter.route(
          "GET",
          "/api/state",
          Effect.map(state, (text) => HttpServerResponse.text(text, { contentType: "application/json" }))
        ),
        HttpRouter.route("POST", `${actionPath}:name`, acting(actions))
      ])
    })
  )
