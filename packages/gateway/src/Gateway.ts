/**
 * A gateway for programs that speak to OpenAI or Anthropic: the same wire formats, over chains of targets. A caller changes
 * its base URL, or its `fetch`, and nothing else.
 *
 * - A target that speaks the caller's format gets the caller's own request. Changed are the model, the key and, where it is
 *   too high for the model, the output limit. Its answer goes back event by event as it came.
 * - Any other target gets a translation, and its answer comes in the caller's format. A header names the fields that were
 *   left out.
 * - A stream that is cut goes on: another attempt continues the text, and the caller sees one answer with one id.
 * - An answer that cannot be saved ends with an error of the format, and never as if it were complete.
 *
 * `fetch` handles one request. Put it in place of a client's `fetch`, without a port, or behind a server (`Server`). By
 * itself it asks for no key: whoever can call it can spend the money behind it.
 *
 * **Limits.** What no other format can express, such as several choices, is asked of targets that speak the caller's format
 * alone. One gateway keeps its cooldowns in memory.
 *
 * **Example** (In process)
 *
 * ```ts
 * const gateway = Gateway.create({
 *   routes: { smart: { chain: [OpenAi.model("gpt-5.1"), OpenAi.model("gpt-5.1-mini")] } }
 * })
 * // new OpenAI({ apiKey: "none", fetch: gateway.fetch }) asks for the model "smart"
 * await gateway.dispose()
 * ```
 */
import { UndiciFetch } from "@outlast/providers/undici"
import { Options as Check } from "@outlast/resilience"
import { Effect, Exit, Scope } from "effect"
import type { Reply } from "./answer/Reply.ts"
import { toResponse } from "./answer/Reply.ts"
import * as Handler from "./Handler.ts"
import type { Route } from "./Route.ts"
import * as Routes from "./Route.ts"

export type { Reply } from "./answer/Reply.ts"
export type { Built, Route } from "./Route.ts"

export interface Options {
  /**
   * Routes by the name of the model that callers ask for. Default: every model of OpenAI, Anthropic and Google, with the
   * keys in `OPENAI_API_KEY`, `ANTHROPIC_API_KEY` and `GOOGLE_GENERATIVE_AI_API_KEY`, and further ones in `…_2` to `…_9`.
   */
  readonly routes?: Readonly<Record<string, Route>> | undefined
  /** Sends the requests of targets that have no `fetch` of their own. Default: undici over HTTP/1.1. */
  readonly fetch?: typeof globalThis.fetch | undefined
}

export interface Gateway {
  /** Answers one request. Takes what the global `fetch` takes. */
  readonly fetch: typeof globalThis.fetch
  /** The same, for a server that has no `Request`. */
  readonly handle: (incoming: Handler.Incoming) => Promise<Reply>
  /** The chains that calls have built, and that are kept: the state of their targets, for operators. */
  readonly chains: Effect.Effect<ReadonlyArray<Routes.Built>>
  /**
   * Takes other routes. Running answers go on. A route that stays the same object keeps its cooldowns. A gateway without
   * routes serves only these from then on.
   */
  readonly replace: (routes: Readonly<Record<string, Route>>) => Effect.Effect<void>
  /** Ends the running answers: a stream with the error event of its format, any other with status 503. */
  readonly interrupt: Effect.Effect<void>
}

const checks: Check.Checks<Options> = {
  routes: (module, field, value) =>
    Check.check(
      typeof value === "object" && value !== null && Object.keys(value).length > 0,
      module,
      field,
      value,
      'routes by name, for example { smart: { chain: [OpenAi.model("gpt-5.1")] } }'
    ),
  fetch: Check.is.fn("(url, init) => Promise<Response>")
}

/** A gateway that ends with the scope, and its running answers with it. Throws an `InvalidOption` for wrong options, as a defect. */
export const make = (options: Options = {}): Effect.Effect<Gateway, never, Scope.Scope> =>
  Effect.gen(function* () {
    Check.fields("Gateway", options, checks)
    const routes = yield* Routes.make({ routes: options.routes, fetch: options.fetch ?? UndiciFetch.make() })
    const services = yield* Effect.context<never>()
    const handler = Handler.make(routes, services)
    const { handle } = handler
    yield* Effect.addFinalizer(() => Effect.sync(handler.end))
    return {
      fetch: async (input, init) => toResponse(await handle(incomingOf(new Request(input, init)))),
      handle,
      interrupt: Effect.sync(handler.interrupt),
      chains: routes.chains,
      replace: routes.replace
    }
  })

/** The variables with keys of vendors that are set, in the order of their use. */
export const keysInEnvironment: Effect.Effect<ReadonlyArray<string>> = Routes.keysInEnvironment

/** A gateway that ends with {@link Created.dispose}. */
export interface Created extends Gateway, AsyncDisposable {
  readonly dispose: () => Promise<void>
}

/** As {@link make}, for programs without Effect. Throws an `InvalidOption` for wrong options. */
export const create = (options: Options = {}): Created => {
  const scope = Scope.makeUnsafe()
  const gateway = Effect.runSync(Scope.provide(make(options), scope))
  const dispose = () => Effect.runPromise(Scope.close(scope, Exit.void))
  return { ...gateway, dispose, [Symbol.asyncDispose]: dispose }
}

const incomingOf = (request: Request): Handler.Incoming => ({
  method: request.method,
  path: new URL(request.url).pathname,
  header: (name) => request.headers.get(name) ?? undefined,
  names: () => request.headers.keys(),
  signal: request.signal,
  read: async (maxBytes) => {
    const chunks: Array<Uint8Array> = []
    let size = 0
    for await (const chunk of request.body ?? []) {
      size += chunk.length
      if (size > maxBytes) return undefined
      chunks.push(chunk)
    }
    return Buffer.concat(chunks).toString()
  }
})
