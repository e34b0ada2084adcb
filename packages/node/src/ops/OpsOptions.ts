/** Options of `Ops`, with their defaults. */
import { Redacted } from "effect"
import type { Duration, Layer } from "effect"
import type { HttpRouter } from "effect/http"
import * as Check from "@outlast/resilience/Options"
import type { Action } from "./Action.ts"
import * as Gate from "./RequestGate.ts"

/** Where a server listens. */
export interface Listen {
  /** 0 is any free port. */
  readonly port?: number | undefined
  /** Address. Default 127.0.0.1. In a container `0.0.0.0`. */
  readonly host?: string | undefined
}

export interface PageOptions<E = never> extends Listen {
  /** Needed for actions, and for everything but the files of the page where `host` is not a loopback address. */
  readonly token?: Redacted.Redacted | undefined
  /** Names under which the page is reached, beside addresses and `localhost`. */
  readonly hosts?: ReadonlyArray<string> | undefined
  /** Readers of `/events` at a time. Default 100. */
  readonly maxReaders?: number | undefined
  /** Actions of operators, by name. Default: nothing. Needs `token`. */
  readonly actions?: Readonly<Record<string, Action>> | undefined
  /** Further routes behind the same checks. Their requests must be JSON, and have at most 64 KiB. */
  readonly routes?: Layer.Layer<never, E, HttpRouter.HttpRouter> | undefined
}

export interface Options<E = never> {
  /** Name of the program on the page and in `outlast_build_info`. Default "outlast". */
  readonly name?: string | undefined
  /** Version of the program. Default "0.0.0". */
  readonly version?: string | undefined
  /** `/live` and `/ready`. Default port 8080. `false`: no listener. */
  readonly probes?: Listen | false | undefined
  /** `/metrics`. Default port 9090. `false`: no listener. */
  readonly metrics?: Listen | false | undefined
  /** The status page, `/events`, `/api/state` and actions. Default port 4180. `false`: no listener. */
  readonly page?: PageOptions<E> | false | undefined
  /** Time in which a request must arrive, with its body. Default 10 seconds. */
  readonly requestLimit?: Duration.Input | undefined
}

export const defaults = {
  name: "outlast",
  version: "0.0.0",
  host: "127.0.0.1",
  probes: { port: 8_080 },
  metrics: { port: 9_090 },
  page: { port: 4_180, maxReaders: 100 },
  requestLimit: "10 seconds"
} as const

const listen = {
  port: Check.is.integer({ min: 0, max: 65_535 }),
  host: Check.is.text
} as const

const off =
  (check: Check.Check): Check.Check =>
  (module, field, value) => {
    if (value !== false) check(module, field, value)
  }

const hostName: Check.Check = (module, field, value) =>
  Check.check(
    typeof value === "string" && Gate.isName(value),
    module,
    field,
    value,
    "a host name without a scheme, a port and a path"
  )

/** Characters of a token, at least. Shorter ones could be guessed. */
const minToken = 16

const isToken = (text: string): boolean => text.length >= minToken && Gate.isToken(text)

export const checks: Check.Checks<Options<unknown>> = {
  name: Check.is.text,
  version: Check.is.text,
  probes: off(Check.is.object<Listen>(listen)),
  metrics: off(Check.is.object<Listen>(listen)),
  page: off(
    Check.is.object<PageOptions<unknown>>({
      ...listen,
      token: (module, field, value) =>
        Check.check(
          Redacted.isRedacted(value) && isToken(String(Redacted.value(Check.redacted(module, field, value)))),
          module,
          field,
          // The value is a secret.
          undefined,
          `a Redacted of at least ${minToken} characters of ASCII, without spaces and line breaks`
        ),
      hosts: Check.is.list(hostName, "a list of names"),
      maxReaders: Check.is.integer({ min: 1, max: 10_000 }),
      actions: Check.is.record(Check.is.having("an action of Ops.action", "run")),
      routes: Check.is.layer
    })
  ),
  requestLimit: Check.is.duration({ min: "1 millis" })
}

/** Contradictions between options. */
export const checkPage = (
  module: string,
  { actions = {}, host = defaults.host, token }: PageOptions<unknown>
): void => {
  Check.check(
    token !== undefined || Gate.isLoopback(host),
    module,
    "page.token",
    undefined,
    `given where page.host (${host}) is not a loopback address`
  )
  Check.check(
    token !== undefined || Object.keys(actions).length === 0,
    module,
    "page.token",
    undefined,
    "given where there are actions"
  )
}
