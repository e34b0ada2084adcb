/**
 * Rules on proxies on the caller's side that refuse to connect, or answer instead of the provider. The provider saw
 * nothing, so neither its key nor its model is at fault.
 */
import type { ErrorFacts } from "../facts/ErrorFacts.ts"
import type { FailoverReason } from "../reasons/FailoverReason.ts"
import * as Rule from "./Rule.ts"
import { network, permanentNetwork } from "./reasons.ts"

/** A proxy that blames the caller does so again. One that cannot reach the provider may do so later. */
const refused = ({ said, status, text }: ErrorFacts): FailoverReason => {
  const decisive = said ?? status ?? 0
  const blames = decisive >= 400 && decisive < 500 && decisive !== 408 && decisive !== 429
  return blames || /auth(?:entication|orization|_)/.test(text) ? permanentNetwork : network
}

export const proxies: ReadonlyArray<Rule.Rule> = [
  Rule.text({
    id: "proxy/tunnel",
    why: "A proxy refused to open a tunnel to the provider.",
    phrases: [
      "when http tunneling",
      "tunneling socket could not be established",
      "tunnel connection failed",
      "connect tunnel failed",
      "failed to establish tunnel",
      "unsuccessful tunnel",
      "tunnel through proxy",
      "proxy tunnel request",
      "from proxy after connect",
      "proxyconnect",
      "(socks5|socks)",
      "und_err_socks5_*",
      "proxy (authentication|authorization) required"
    ],
    reason: refused
  }),
  Rule.status({
    id: "proxy/status",
    why: "Proxy Authentication Required. Only a proxy answers so.",
    statuses: [407],
    reason: permanentNetwork
  }),
  Rule.rule(
    {
      id: "proxy/squid",
      why: "Squid answers with a page of its own, and names its error in a header.",
      reason: refused
    },
    "header",
    ({ headers }) => headers["x-squid-error"]
  )
]
