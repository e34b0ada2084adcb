/**
 * Endpoints and the status page of a program.
 *
 * | listener  | paths                                              | who asks                                       |
 * | --------- | -------------------------------------------------- | ---------------------------------------------- |
 * | `probes`  | `/live`, `/ready`                                  | Kubernetes, a load balancer                    |
 * | `metrics` | `/metrics`                                         | Prometheus                                     |
 * | `page`    | `/`, `/events`, `/api/state`, `/api/actions/NAME`, | a person's browser; programs that read events  |
 * |           | and those of the others                            |                                                |
 *
 * `probes` and `metrics` need no token, answer under any Host, and hold no secrets. `page` checks Host and Origin, and
 * needs a token where it does not listen on a loopback address. Operators can change something only through
 * {@link action}s that the program passes, and only with a token. See `docs/do/operations.md`.
 *
 * **How it composes.** The layer needs a `Host`: its checks answer `/ready`, its sections are `/api/state`. Events come
 * from the surrounding `ResilienceEvents`, so provide their layer below this one. All listeners stay open during a
 * shutdown and close with the scope: Kubernetes asks until the end.
 *
 * **Limits.** HTTP without TLS: put a proxy in front of a page that is reached over a network. A request has at most
 * 8 KiB of headers and 64 KiB of body.
 *
 * **Example** (A service that is seen)
 *
 * ```ts
 * const Telemetry = ResilienceEvents.layer()
 * const Operations = Ops.layer({ name: "triage", probes: { host: "0.0.0.0" }, metrics: { host: "0.0.0.0" } })
 *
 * Host.runMain(Layer.launch(Operations.pipe(Layer.provide(Telemetry))))
 * ```
 */
import { Context, Duration, Effect, Layer, Metric } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import * as Check from "@outlast/resilience/Options"
import { Host } from "../host/HostService.ts"
import * as Audit from "./Audit.ts"
import * as Feed from "./EventFeed.ts"
import type { ListenFailed } from "./Listener.ts"
import * as Listener from "./Listener.ts"
import type { Listen, Options, PageOptions } from "./OpsOptions.ts"
import { checkPage, checks, defaults } from "./OpsOptions.ts"
import * as Page from "./Page.ts"
import { WrongTokens } from "./WrongTokens.ts"
import * as ProcessGauges from "./ProcessGauges.ts"
import * as Prometheus from "./Prometheus.ts"
import * as Gate from "./RequestGate.ts"
import * as Routes from "./Routes.ts"

export { action, ActionFailed } from "./Action.ts"
export type { Action, ActionOptions, Done } from "./Action.ts"
export { BodyRefused, readJson } from "./Body.ts"
export { ListenFailed } from "./Listener.ts"
export { definitions } from "./OpsEvent.ts"
export type { HeadlineChanged, OperatorAction, OpsEvent, Outcome } from "./OpsEvent.ts"
export type { Headline, Level, Part } from "./Headline.ts"
export { defaults } from "./OpsOptions.ts"
export type { Listen, Options, PageOptions } from "./OpsOptions.ts"
export { addAll as routes } from "./Routes.ts"

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

/** Ports of the open listeners; `undefined` for a listener that is off. */
export interface Service {
  readonly probes: number | undefined
  readonly metrics: number | undefined
  readonly page: number | undefined
  /** Readers of `/events`. */
  readonly readers: Effect.Effect<number>
}

export class Ops extends Context.Service<Ops, Service>()("@outlast/node/ops/Ops") {}

const module = "Ops"

/** Connections beside those of readers. */
const connections = 64

/** Milliseconds for which an answer of `/ready` is shared, so that many requests do not run the checks many times. */
const readyAge = 250

const plain = { "cache-control": "no-store", "x-content-type-options": "nosniff" } as const

// -----------------------------------------------------------------------------
// Layer
// -----------------------------------------------------------------------------

/** Opens the listeners. Fails with {@link ListenFailed} where a port is taken. */
export const layer = <E = never>(options: Options<E> = {}): Layer.Layer<Ops, ListenFailed | E, Host> => {
  Check.fields(module, options, checks)
  const page = options.page ?? {}
  if (page !== false) checkPage(module, page)
  const { name = defaults.name, version = defaults.version } = options
  const request = Duration.toMillis(options.requestLimit ?? defaults.requestLimit)
  const limits = { request, connections }
  const at = (listen: Listen, { port }: { readonly port: number }) => ({
    host: listen.host ?? defaults.host,
    port: listen.port ?? port
  })
  const feedOptions = {
    ...Feed.defaults,
    ...(page === false ? {} : { maxReaders: page.maxReaders ?? defaults.page.maxReaders })
  }

  return Layer.effect(
    Ops,
    Effect.gen(function* () {
      const { metrics = {}, probes = {} } = options
      const probesPort =
        probes === false
          ? undefined
          : yield* Listener.make(
              "probes",
              at(probes, defaults.probes),
              limits,
              HttpRouter.serve(probeRoutes, Listener.quiet)
            )
      const gauges = yield* ProcessGauges.make({ name, version })
      const metricsPort =
        metrics === false
          ? undefined
          : yield* Listener.make(
              "metrics",
              at(metrics, defaults.metrics),
              limits,
              HttpRouter.serve(metricRoutes(gauges), Listener.quiet)
            )
      if (page === false) {
        return { probes: probesPort, metrics: metricsPort, page: undefined, readers: Effect.succeed(0) }
      }
      const where = at(page, defaults.page)
      const policy: Gate.Policy = {
        isLoopback: Gate.isLoopback(where.host),
        hosts: new Set((page.hosts ?? []).map((name) => name.toLowerCase())),
        isToken: page.token === undefined ? undefined : Page.comparer(page.token)
      }
      const checked = { policy, actions: page.actions ?? {}, audit: Audit.make(), wrong: new WrongTokens() }
      const feed = yield* Feed.make(feedOptions)
      // Last: readers see the shutdown. A reader that stays would hold up the end of the program.
      yield* (yield* Host).onShutdown("last", { name: "readers of events", run: feed.end })
      const own = Layer.mergeAll(
        Page.routes({ name, version, feed, checked }),
        probeRoutes,
        metricRoutes(gauges)
      )
      const routes = withRoutes(own, page)
      const pagePort = yield* Listener.make(
        "page",
        where,
        { request, connections: connections + feedOptions.maxReaders },
        HttpRouter.serve(routes, { ...Listener.quiet, middleware: Page.gate(checked) })
      )
      return { probes: probesPort, metrics: metricsPort, page: pagePort, readers: feed.readers }
    })
  )
}

const withRoutes = <E>(
  own: Layer.Layer<never, never, HttpRouter.HttpRouter | Host>,
  { routes }: PageOptions<E>
): Layer.Layer<never, E, HttpRouter.HttpRouter | Host> =>
  routes === undefined ? own : Layer.merge(own, routes)

const probeRoutes = Layer.unwrap(
  Effect.gen(function* () {
    const host = yield* Host
    const readiness = yield* Effect.cachedWithTTL(Effect.uninterruptible(host.readiness), readyAge)
    const answer = (isGood: boolean, body: unknown) =>
      HttpServerResponse.jsonUnsafe(body, { status: isGood ? 200 : 503, headers: plain })
    return Routes.addAll([
      HttpRouter.route(
        "GET",
        "/live",
        Effect.map(host.isLive, (isLive) => answer(isLive, { isLive }))
      ),
      HttpRouter.route(
        "GET",
        "/ready",
        Effect.map(readiness, (ready) => answer(ready.isReady, ready))
      )
    ])
  })
)

const metricRoutes = (gauges: () => ReadonlyArray<Prometheus.Gauge>) =>
  Routes.addAll([
    HttpRouter.route(
      "GET",
      "/metrics",
      Effect.map(Metric.snapshot, (snapshot) =>
        HttpServerResponse.text(Prometheus.encode(snapshot, gauges()), {
          contentType: Prometheus.contentType,
          headers: plain
        })
      )
    )
  ])
