/**
 * DECISION_037's patterns. They read only the text. The first matching class applies, and text without a match is a
 * logic error.
 */
import { Vocabulary } from "@outlast/agent/presets"
import { firstOf, make } from "./SimplerRule.ts"

const classes: ReadonlyArray<readonly [Vocabulary.Decision037Class, ReadonlyArray<RegExp>]> = [
  [
    "ContextLength",
    [
      /context.length/i,
      /maximum.context/i,
      /too.many.tokens/i,
      /token.limit/i,
      /max.token/i,
      /context.window/i,
      /input.too.long/i
    ]
  ],
  [
    "NetworkPermanent",
    [
      /cert(?:ificate)? (?:has )?(?:expired|invalid|error)/i,
      /(?:ssl|tls) (?:handshake|error|failure)/i,
      /self-signed cert/i,
      /proxy (?:auth|error|connect)/i,
      /unable to verify.*certificate/i,
      /DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_GET_ISSUER_CERT|ERR_TLS_CERT_ALTNAME_INVALID/i
    ]
  ],
  [
    "ProviderRateLimit",
    [
      /rate.limit/i,
      /429/,
      /too.many.requests/i,
      /quota.exceeded/i,
      /exceeded.your.current.quota/i,
      /RESOURCE_EXHAUSTED/i,
      /more.credit/i,
      /credit.exceeded/i,
      /insufficient.quota/i,
      /api.usage/i,
      /requests.per.minute/i,
      /tokens.per.minute/i
    ]
  ],
  [
    "NetworkTransient",
    [
      /econnrefused|econnreset|econnaborted|enotfound|etimedout|epipe|ehostunreach|enetunreach|enetdown/i,
      /timeout/i,
      /unable to connect/i,
      /network error/i,
      /connection (?:error|refused|reset|closed|timed out)/i,
      /socket hang up/i,
      /dns lookup fail/i,
      /getaddrinfo enotfound/i,
      /fetch failed/i,
      /request aborted/i,
      /unable to access url|access the url|typo in the url or port/i,
      /503|504|502/,
      /service unavailable/i,
      /gateway timeout/i,
      /bad gateway/i
    ]
  ],
  [
    "ProviderError",
    [
      /model.unavailable/i,
      /invalid.*model/i,
      /model.*not.*found/i,
      /unknown.*model/i,
      /model.*not.*available/i,
      /invalid.*api.*key/i,
      /api.*key.*invalid/i,
      /401 unauthorized/i,
      /forbidden/i,
      /PERMISSION_DENIED/i,
      /authentication.*failed/i,
      /unauthorized.*access/i,
      /invalid.*prompt/i,
      /bad.*request/i,
      /400 bad/i,
      /unknown.*(?:error|failure)/i,
      /(?:provider|upstream|server|internal|subagent).*error/i,
      /agent.*not.*(?:found|available)/i,
      /(?:generativelanguage|cloudaicompanion)\.googleapis\.com/i
    ]
  ]
]

export const decision037 = make({
  name: "DECISION_037",
  vocabulary: "6 classes",
  classOf: Vocabulary.decision037,
  sort: ({ text }) => firstOf(classes, text) ?? "LogicError"
})
