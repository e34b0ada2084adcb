/**
 * The port for operators of a gateway: the status page with the targets of all routes, probes, metrics and events. On
 * loopback unless it has a token, and never on the port of the callers.
 */
import { Effect, Layer, Option } from "effect"
import { Activity, Outlast } from "@outlast/agent"
import type { TargetRef } from "@outlast/agent/conversation"
import { Targets } from "@outlast/agent/failover"
import { GatewayMetrics } from "@outlast/gateway"
import type { Gateway } from "@outlast/gateway"
import { Host } from "@outlast/node"
import { Alerts, ResilienceEvents } from "@outlast/resilience"
import * as Listeners from "../serve/Listeners.ts"
import * as Operators from "../serve/Operators.ts"
import * as Traces from "../serve/Traces.ts"
import type { Chain } from "./Sections.ts"
import * as Sections from "./Sections.ts"

export interface Options {
  readonly version: string
  readonly names: ReadonlyArray<string>
  /** Port of the page. */
  readonly ops: number
  readonly opsHost: string
  /** Ports of their own for probes and metrics, which need no token. The page answers them, too. */
  readonly probes: Option.Option<number>
  readonly metrics: Option.Option<number>
}

/** What the page shows: the gateway must be made inside. */
export const telemetry = Alerts.layer().pipe(
  Layer.provideMerge(GatewayMetrics.layer()),
  Layer.provideMerge(Outlast.layerMetrics()),
  Layer.provideMerge(ResilienceEvents.layer()),
  Layer.provideMerge(Traces.layer("outlast-gateway"))
)

const flags = {
  "page.port": "--ops-port",
  "page.host": "--ops-host",
  "probes.port": "--probes-port",
  "probes.host": "--ops-host",
  "metrics.port": "--metrics-port",
  "metrics.host": "--ops-host"
}

/** Opens the port until the scope ends, and returns the lines that say where. */
export const open = (
  { chains }: Pick<Gateway.Gateway, "chains">,
  { metrics, names, ops, opsHost, probes, version }: Options
) =>
  Effect.gen(function* () {
    const token = yield* Listeners.token("--ops-host", opsHost)
    const activity = yield* Activity.make
    const read = Effect.flatMap(chains, (all) => Effect.forEach(all, chainOf))
    yield* Host.section("activity", activity.json)
    yield* Host.section("targets", Effect.map(read, Sections.targets))
    yield* Host.section("routes", Effect.map(read, Sections.routes))
    const at = (port: Option.Option<number>) =>
      Option.match(port, { onNone: () => false as const, onSome: (port) => ({ host: opsHost, port }) })
    const ports = yield* Listeners.open<never>(
      {
        name: "outlast gateway",
        version,
        probes: at(probes),
        metrics: at(metrics),
        page: {
          host: opsHost,
          port: ops,
          hosts: names,
          token,
          actions: token === undefined ? {} : { lift: Operators.lift(lifted(chains)) }
        }
      },
      flags
    )
    const url = (port: number | undefined, path: string) =>
      `http://${Listeners.urlHost(opsHost)}:${port}${path}`
    return [
      `status page    ${url(ports.page, "/")}`,
      ...(ports.probes === undefined ? [] : [`probes         ${url(ports.probes, "/ready")}`]),
      ...(ports.metrics === undefined ? [] : [`metrics        ${url(ports.metrics, "/metrics")}`])
    ]
  })

const chainOf = ({ route, targets, wire }: Gateway.Built): Effect.Effect<Chain> =>
  Effect.map(Effect.provideService(Activity.chain, Targets.Targets, targets), (targets) => ({
    route,
    wire,
    targets
  }))

/** Ends the cooldowns in every chain that has such a target. */
const lifted = (chains: Gateway.Gateway["chains"]) => (which: Targets.Which) =>
  Effect.gen(function* () {
    const all = yield* Effect.filter(yield* chains, ({ targets }) =>
      Effect.map(targets.list, (list) => list.some(({ target }) => isMeant(which, target)))
    )
    if (all.length === 0) return yield* Effect.fail({ message: "No target in use is meant." })
    const each = yield* Effect.forEach(all, ({ targets }) => targets.reset(which))
    return {
      cooldowns: each.reduce((sum, { cooldowns }) => sum + cooldowns, 0),
      circuits: [...new Set(each.flatMap(({ circuits }) => circuits))]
    }
  })

const isMeant = (which: Targets.Which, target: TargetRef.TargetRef): boolean =>
  target.id === (which.target ?? target.id) &&
  target.key === (which.key ?? target.key) &&
  target.provider === (which.provider ?? target.provider)
