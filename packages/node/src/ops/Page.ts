/** The routes of the status page: its files, `/events`, `/api/state` and the actions of operators. */
import { Cause, Clock, Effect, Layer, Option, Redacted, Result } from "effect"
import { HttpEffect, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { createHash, timingSafeEqual } from "node:crypto"
import { readFileSync } from "node:fs"
import { IncomingMessage } from "node:http"
import { Host } from "../host/HostService.ts"
import type { Action, Done } from "./Action.ts"
import { ActionFailed } from "./Action.ts"
import type { Audit } from "./Audit.ts"
import * as Body from "./Body.ts"
import type { EventFeed } from "./EventFeed.ts"
import * as Headline from "./Headline.ts"
import { watch } from "./HeadlineWatch.ts"
import * as Gate from "./RequestGate.ts"
import * as Routes from "./Routes.ts"
import type { WrongTokens } from "./WrongTokens.ts"

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

const modules = [
  "actions",
  "calls",
  "charts",
  "elements",
  "headline",
  "page",
  "sections",
  "status",
  "words"
] as const

const files = [
  ["/", "index.html", "text/html; charset=utf-8"],
  ["/status.css", "status.css", "text/css; charset=utf-8"],
  ...modules.map((name) => [`/${name}.js`, `${name}.js`, "text/javascript; charset=utf-8"] as const)
] as const

const filePaths: ReadonlySet<string> = new Set(files.map(([path]) => path))

/** Paths that only answer GET. */
const readPaths: ReadonlySet<string> = new Set([
  ...filePaths,
  "/events",
  "/api/state",
  "/live",
  "/ready",
  "/metrics"
])

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

/** Settings for the checks of a request. */
export interface Checked {
  readonly policy: Gate.Policy
  readonly actions: Readonly<Record<string, Action>>
  readonly audit: Audit
  readonly wrong: WrongTokens
}

const pathOf = (url: string): string => url.split("?", 1)[0] ?? ""

/**
 * The kind of a request by its method. The handler of the actions asks for more itself ({@link acting}): routes also
 * match other spellings of a path, so a path does not decide what needs the token.
 */
const kindOf = ({ method, url }: HttpServerRequest.HttpServerRequest): Gate.Kind => {
  const path = pathOf(url)
  if (method === "POST") return readPaths.has(path) ? "read" : "send"
  return (method === "GET" || method === "HEAD") && filePaths.has(path) ? "open" : "read"
}

/** The Host of a request. Several are none: a proxy on the way may have read another one than the first. */
const hostOf = ({ headers, source }: HttpServerRequest.HttpServerRequest): string | undefined =>
  source instanceof IncomingMessage && (source.headersDistinct["host"]?.length ?? 0) > 1
    ? undefined
    : headers["host"]

/** The answer to a request that is refused. */
const refusalOf = (
  { policy, wrong }: Checked,
  kind: Gate.Kind,
  request: HttpServerRequest.HttpServerRequest
) =>
  // A clock that is set back must not lengthen a wait.
  Effect.map(Clock.monotonicTimeNanos, (nanos): HttpServerResponse.HttpServerResponse | undefined => {
    const now = Number(nanos) / 1e6
    const { headers } = request
    const address = Option.getOrElse(request.remoteAddress, () => "")
    const hasToken = headers["authorization"] !== undefined
    const wait = hasToken ? wrong.wait(address, now) : 0
    if (wait > 0) {
      const error = "Too many wrong tokens came from this address. Wait before the next one."
      const seconds = String(Math.ceil(wait / 1_000))
      return HttpServerResponse.setHeader(json({ error }, 429), "retry-after", seconds)
    }
    const refusal = Gate.verdict(policy, {
      kind,
      host: hostOf(request),
      origin: headers["origin"],
      authorization: headers["authorization"],
      site: headers["sec-fetch-site"],
      contentType: headers["content-type"]
    })
    if (refusal === undefined) return undefined
    if (hasToken && refusal.status === 401) wrong.add(address, now)
    return json({ error: refusal.message }, refusal.status)
  })

/** Refuses what {@link Gate.verdict} refuses, and adds the headers of every response. */
export const gate =
  (checked: Checked) =>
  <E, R>(app: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
    Effect.gen(function* () {
      const { actions, audit } = checked
      const request = yield* HttpServerRequest.HttpServerRequest
      yield* HttpEffect.appendPreResponseHandler((_, response) =>
        Effect.succeed(HttpServerResponse.setHeaders(response, headers))
      )
      const refusal = yield* refusalOf(checked, kindOf(request), request)
      if (refusal === undefined) {
        if (!Body.isTooLarge(request.headers["content-length"])) return yield* app
        const { message, status } = new Body.BodyRefused({ status: 413 })
        // The rest of the body is not read.
        return HttpServerResponse.setHeader(json({ error: message }, status), "connection", "close")
      }
      if (pathOf(request.url).toLowerCase().startsWith(actionPath)) {
        yield* audit.add(nameOf(request.url, actions), undefined, "refused")
      }
      return refusal
    })

// -----------------------------------------------------------------------------
// Actions
// -----------------------------------------------------------------------------

/** Only names of the program: the path comes from the request. */
const nameOf = (url: string, actions: Readonly<Record<string, Action>>): string => {
  const name = pathOf(url).slice(actionPath.length)
  return Object.hasOwn(actions, name) ? name : "unknown"
}

/** A defect is a failure like any other: it is answered, and in the audit trail. */
const carriedOut = (action: Action, params: unknown): Effect.Effect<Done, ActionFailed> =>
  Effect.suspend(() => action.run(params)).pipe(
    Effect.catchDefect((defect) =>
      Effect.andThen(
        Effect.logError("An action ended with a defect.", Cause.die(defect)),
        Effect.fail(
          new ActionFailed({
            reason: "failed",
            message: "This should not happen. The log of the program has the cause."
          })
        )
      )
    )
  )

const acting = (checked: Checked) =>
  Effect.gen(function* () {
    const { actions, audit } = checked
    const request = yield* HttpServerRequest.HttpServerRequest
    const name = nameOf(request.url, actions)
    const refusal = yield* refusalOf(checked, "change", request)
    if (refusal !== undefined) {
      yield* audit.add(name, undefined, "refused")
      return refusal
    }
    const action = Object.hasOwn(actions, name) ? actions[name] : undefined
    if (action === undefined) {
      yield* audit.add("unknown", undefined, "refused")
      return json({ error: "There is no such action.", actions: Object.keys(actions) }, 404)
    }
    const body = yield* Effect.result(Body.readJson)
    if (Result.isFailure(body)) {
      const { message, status } = body.failure
      yield* audit.add(name, undefined, "refused")
      return json({ error: `${message} ${action.doc}` }, status)
    }
    // A connection that closes does not leave an action half done.
    const done = yield* Effect.uninterruptible(Effect.result(carriedOut(action, body.success)))
    if (Result.isSuccess(done)) {
      yield* audit.add(name, done.success.subject, "done")
      return json({ result: done.success.result })
    }
    const { message, reason } = done.failure
    yield* audit.add(name, undefined, reason === "params" ? "refused" : "failed")
    return json({ error: message }, reason === "params" ? 400 : 409)
  })

// -----------------------------------------------------------------------------
// Routes
// -----------------------------------------------------------------------------

export interface Parts {
  readonly name: string
  readonly version: string
  readonly feed: EventFeed
  readonly checked: Checked
}

const folder = new URL("../../src/ops/page/", import.meta.url)

/** The routes over the host of the program. */
export const routes = ({
  checked,
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
            const operators = checked.audit.last()
            const headline = Headline.of({ at, status, readiness, sections, operators })
            const names = Object.entries(checked.actions).map(([name, { doc }]) => ({ name, doc }))
            const text = JSON.stringify({
              name,
              version,
              started,
              at,
              status,
              headline,
              readiness,
              readers,
              actions: names,
              operators,
              sections
            })
            // One body for all answers of this time: those that a client does not read cost no memory of their own.
            return { headline, response: HttpServerResponse.text(text, { contentType: "application/json" }) }
          })
        ),
        stateAge
      )
      yield* Effect.forkScoped(watch(Effect.map(state, ({ headline }) => headline)))
      const events = Effect.gen(function* () {
        const request = yield* HttpServerRequest.HttpServerRequest
        const body = yield* feed.open(request.headers["last-event-id"])
        return body === undefined
          ? HttpServerResponse.setHeaders(
              json({ error: "Too many readers. Close one, or raise `maxReaders`." }, 503),
              // An idle connection would keep others out.
              { connection: "close", "retry-after": "5" }
            )
          : HttpServerResponse.raw(body, { contentType: "text/event-stream; charset=utf-8" })
      })
      return Routes.addAll([
        ...files.map(([path, file, contentType]) => {
          const text = readFileSync(new URL(file, folder), "utf8")
          return HttpRouter.route("GET", path, HttpServerResponse.text(text, { contentType }))
        }),
        HttpRouter.route("GET", "/events", events),
        HttpRouter.route(
          "GET",
          "/api/state",
          Effect.map(state, ({ response }) => response)
        ),
        HttpRouter.route("POST", `${actionPath}:name`, acting(checked))
      ])
    })
  )
