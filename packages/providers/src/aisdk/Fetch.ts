/**
 * A `fetch` that follows redirects within the same origin only, ends streams of events at their last event
 * (`StreamEnd`), limits the bytes of a response (`BodyLimit`), repeats a request whose idle connection the server had
 * closed (`StaleSocket`), reads what comes in place of a stream (`InPlaceOfStream`), and brings answers into the form that
 * the clients read (`AnswerForm`).
 *
 * The `fetch` of a runtime follows redirects anywhere, with the whole prompt and with every header except
 * `authorization`: `x-api-key` and `x-goog-api-key` would reach any host that a server or a proxy names. Here a
 * redirect to another scheme, host or port is a `PermanentNetwork` failure that names the origin, and no request goes
 * there.
 *
 * - A redirect within the origin is followed, at most {@link maxRedirects} times. 307 and 308 keep method and body.
 * - 301, 302 and 303 would repeat a POST as a GET without its body. They are followed for GET and HEAD only.
 * - A caller that sets `redirect` to `manual` or `error` handles redirects itself.
 *
 * **Limits.** A custom `fetch` gets `redirect: "manual"`. If it follows the redirect nevertheless, its response is
 * rejected.
 */
import { FailoverReason, ProviderFailure } from "@outlast/agent"
import { Redaction } from "@outlast/agent/failure"
import * as BodyLimit from "./BodyLimit.ts"
import * as Connection from "./Connection.ts"
import * as DisguisedError from "./DisguisedError.ts"
import * as InPlaceOfStream from "./InPlaceOfStream.ts"
import * as AnswerForm from "./form/AnswerForm.ts"
import * as WholeBody from "./WholeBody.ts"
import * as StaleSocket from "./StaleSocket.ts"
import * as StreamEnd from "./StreamEnd.ts"

type Fetch = typeof globalThis.fetch

export const maxRedirects = 5

/** Sends with `send`. Default: that of the call (`Connection.Sender`). */
export const make = (send: Fetch = (input, init) => Connection.sender()(input, init)): Fetch => {
  const repeated = StaleSocket.repeated(send)
  return async (input, init) => {
    const follows = (init?.redirect ?? (input instanceof Request ? input.redirect : "follow")) === "follow"
    const first = await repeated(input, follows ? { ...init, redirect: "manual" } : init)
    // Most responses are no redirects, and no wait follows.
    const response = follows && isRedirect(first) ? await followed(repeated, first, input, init) : first
    const url = input instanceof Request ? input.url : String(input)
    const { onRepair, streams } = Connection.current() ?? {}
    // No answer is changed outside of a call, where no event could report it.
    const form = onRepair === undefined ? undefined : AnswerForm.of(url, init?.body, onRepair)
    const asksForStream = () => streams ?? DisguisedError.asksForStream(url, init)
    if (StreamEnd.isStream(response, asksForStream)) {
      // Some servers stream whatever the request says.
      if (form !== undefined && !asksForStream()) return WholeBody.formed(BodyLimit.limited(response), form)
      return StreamEnd.ended(response, url, form)
    }
    const whole = BodyLimit.limited(response)
    if (InPlaceOfStream.mayBe(whole, asksForStream)) return InPlaceOfStream.read(whole, url, form)
    return form === undefined || asksForStream() ? whole : WholeBody.formed(whole, form)
  }
}

/** True for a redirect, and for a response from elsewhere. */
const isRedirect = ({ redirected, status, type }: Response): boolean =>
  redirected || type === "opaqueredirect" || statuses.has(status)

/** The response behind redirects; `first` is that to the request itself. */
const followed = async (
  send: Fetch,
  first: Response,
  input: Parameters<Fetch>[0],
  init: RequestInit | undefined
): Promise<Response> => {
  const request = requestOf(input, init)
  let url = request.url
  let response = first
  for (let followed = 0; ; followed++) {
    if (followed > 0) response = await send(url, { ...request.init, redirect: "manual" })
    if (response.redirected && originOf(response.url) !== url.origin) {
      throw refuse(response, request, ProviderFailure.redirect.origin, shown(response.url))
    }
    // A browser returns this in place of a redirect.
    if (response.type === "opaqueredirect")
      throw refuse(response, request, ProviderFailure.redirect.refused, "unreadable")
    const location = statuses.has(response.status) ? response.headers.get("location") : null
    if (location === null) return response
    const next = URL.canParse(location, url.href) ? new URL(location, url) : undefined
    if (next?.origin !== url.origin)
      throw refuse(response, request, ProviderFailure.redirect.origin, shown(next?.href))
    if (!request.isRead && !keepsBody.has(response.status)) {
      throw refuse(
        response,
        request,
        ProviderFailure.redirect.refused,
        `HTTP ${response.status} to a ${request.method}`
      )
    }
    if (followed === maxRedirects)
      throw refuse(response, request, ProviderFailure.redirect.refused, `more than ${maxRedirects}`)
    if (!request.canRepeat)
      throw refuse(response, request, ProviderFailure.redirect.refused, "the body is a stream")
    discard(response)
    // A URL with credentials cannot be fetched, and the error would quote them.
    next.username = ""
    next.password = ""
    url = next
  }
}

const statuses: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
const keepsBody: ReadonlySet<number> = new Set([307, 308])

interface Sent {
  readonly url: URL
  readonly method: string
  /** GET or HEAD. */
  readonly isRead: boolean
  readonly canRepeat: boolean
  /** The options to repeat the request at another URL. */
  readonly init: RequestInit
}

const requestOf = (input: Parameters<Fetch>[0], init: RequestInit | undefined): Sent => {
  const request = input instanceof Request ? input : undefined
  const method = (init?.method ?? request?.method ?? "GET").toUpperCase()
  const body = init?.body ?? request?.body ?? undefined
  return {
    url: new URL(request?.url ?? String(input)),
    method,
    isRead: method === "GET" || method === "HEAD",
    canRepeat: !(body instanceof ReadableStream),
    init:
      request === undefined
        ? { ...init }
        : { method, headers: request.headers, signal: request.signal, ...init }
  }
}

const originOf = (url: string): string => (URL.canParse(url) ? new URL(url).origin : "null")

/** Only the origin: path, query and credentials of a redirect may repeat parts of the request. */
const shown = (url: string | undefined): string => {
  const origin = url === undefined ? "null" : originOf(url)
  return /^https?:/.test(origin) ? origin : "no http address"
}

const refuse = (
  response: Response,
  request: Sent,
  rule: string,
  matched: string
): ProviderFailure.ProviderFailure => {
  discard(response)
  // A host name may repeat parts of the request, too, in lower case.
  const values = Array.from(new Headers(request.init.headers).values()).flatMap((value) =>
    [value, ...value.split(/\s+/)].filter((part) => part.length >= 8)
  )
  return new ProviderFailure.ProviderFailure({
    reason: new FailoverReason.PermanentNetwork(),
    evidence: {
      rule,
      signal: "local",
      matched: Redaction.scrub(matched, 120, {
        values: [...values, ...values.map((value) => value.toLowerCase())]
      }),
      depth: 0,
      status: response.status === 0 ? undefined : response.status
    },
    detail: ""
  })
}

/** Frees the connection, without waiting for it. */
const discard = (response: Response): void => {
  response.body?.cancel().catch(() => {})
}
