/**
 * Rules on the words of limits per unit of time, of money, or of capacity. One sentence often mentions all three
 * ("rate limit … upgrade … billing"), so their order matters.
 */
import * as Rule from "./Rule.ts"
import { billing, overloaded, rateLimit } from "./reasons.ts"

/** Names of Google's models and providers in a chain. */
const google = ["google", "gemini", "vertex"]

export const limits: ReadonlyArray<Rule.Rule> = [
  Rule.text({
    id: "limit/fair-use",
    why: "The account is restricted until a person asks to lift it. A limit that resets by itself names its time.",
    phrases: [
      "fair (usage|use)",
      "(restriction|restrictions|suspension) (lifted|removed)",
      "(lift|remove) (the|this|these|your) (restriction|restrictions|suspension)",
      "公平使用",
      "解除限制"
    ],
    unless: [
      "(in|after|for) * (second|seconds|minute|minutes|hour|hours)",
      "(reset|resets|resetting)",
      "per (second|minute|hour|day)",
      "too many (requests|calls)"
    ],
    reason: billing
  }),
  Rule.text({
    id: "limit/spend",
    why: "A cap on spending is about money, even when it is renewed every month.",
    phrases: [
      "(spending|spend|billing|budget|cost) (limit|cap|threshold)…(raise|increase|purchase|reached|exceeded|spending)",
      "(reached|exceeded|hit)…(spending|spend|billing|budget) (limit|cap|quota|threshold)",
      "(monthly|daily|weekly) (spending|spend|budget)",
      "specified (workspace |)api usage limits",
      "(exceeded|crossed|over) budget",
      "budget (has been |is |)(exceeded|exhausted|crossed|reached)",
      "billing hard limit",
      "key limit exceeded",
      "enforced spend limit",
      "with a higher (monthly |weekly |daily |total |)limit",
      "set inference limit"
    ],
    unless: ["tokens per (minute|min|day)", "requests per (minute|min|day)"],
    reason: billing
  }),
  Rule.text({
    id: "limit/google-quota",
    why: 'Google and Alibaba also say "check your plan and billing" for quotas per minute and per day.',
    phrases: ["exceeded your current quota", "(quotaid|quotametric|quotafailure)"],
    when: ({ text, codes }, provider) =>
      google.some((name) => provider.includes(name)) ||
      codes.includes("resource_exhausted") ||
      /ai\.google\.dev|googleapis\.com|google\.rpc|google\.api_core|gemini|resource_exhausted|aliyun|alibaba|dashscope/.test(
        text
      ),
    reason: rateLimit
  }),
  Rule.text({
    id: "limit/per-time",
    why: "A limit that names its unit of time, its dimension or when it resets.",
    phrases: [
      "per (second|minute|min|hour|day|week|month)",
      "/ (min|minute|day)",
      "(tpm|rpm|tpd|rpd|itpm|otpm)",
      "(daily|hourly|weekly|5-hour|five-hour|session|minute|concurrency|concurrent) (request |token |usage |message |requests |)(limit|quota|limits)",
      "(requests|tokens) (limit|rate)",
      "per-(second|minute|min|hour|day|week|month)",
      "call volume",
      "number of concurrent (connections|requests)…(exceed|exceeded|limit)"
    ],
    also: ["(limit|limits|limited|quota|exceeded|exceeds|exceed|reached|throttl*|too many|rate)"],
    unless: ["context (length|window)", "no (credits|money)", "insufficient (credits|balance|funds)"],
    reason: rateLimit
  }),
  Rule.text({
    id: "limit/money",
    why: "Credit, balance or payment is missing.",
    phrases: [
      "credit balance",
      "(insufficient|not enough|no|any|more|out of|lack of) (usd |account |available |api |remaining |prepaid |)(prepaid |account |)(credits|credit|balance|funds|money)",
      "insufficient…(balance|credits|quota|funds)",
      "balance…(insufficient|too low|not enough|exhausted|negative)",
      "(used|consumed|exhausted) all (available |your |of your |)(credits|quota)",
      "(used up|run out of|ran out of|out of) (your |)(points|credits|quota|balance|usage)",
      "(purchase|buy|add|top up|requires more|never purchased) (more |)credits",
      "exceeded your current quota",
      "payment (required|method|overdue|failed)",
      "(account|subscription|billing|invoice)…(overdue|arrears|not active|inactive|unpaid|past due|delinquent|good standing)",
      "(subscription|plan|trial|membership|package) (has |is |was |)(already |)(expired|ended|lapsed)",
      "(inactive|expired|canceled|cancelled|no active) (subscription|plan|membership)",
      "(exhausted|exceeded|used up)…(free tier|free trial|trial) (quota|credits|allowance)",
      "(please|to|must) recharge",
      "top up",
      "enable billing",
      "payment instrument",
      "billing (details|account|is|must|to be) (not |be |)(enabled|active|required|disabled)",
      "(free tier|trial|free quota)…(exhausted|expired|used up|ended|over)",
      "prepayment credits",
      "spending limit",
      "quota (insufficient|is insufficient|not enough|is not enough)",
      "(need|needs|require|requires) (a |an |)(paid|active|purchased)…(plan|subscription|balance)",
      "past due",
      "credit limit exceeded",
      "included credits"
    ],
    unless: [
      "rate limit (exceeded|reached)…free-models*",
      "credits or (retry|try|wait)",
      "rate limits (in place|apply|are in place)",
      "(no|without) (credit|credits|money|funds|charge) (was|were|has been|have been|will be) (charged|used|deducted|taken|consumed)"
    ],
    reason: billing
  }),
  Rule.text({
    id: "limit/overloaded",
    why: "An explicit overload overrides everything else that the sentence mentions.",
    phrases: [
      "(model|models|server|servers|service|engine|system|provider|upstream|api|we) (is|are|was|has been) (currently |temporarily |too |)overloaded"
    ],
    reason: overloaded
  }),
  Rule.text({
    id: "limit/capacity",
    why: "The provider has no capacity for any account.",
    phrases: [
      "(overloaded|overload|overloadederror)",
      "(at|over|no|out of|exceeded|insufficient|limited|lack of) (full |available |maximum |model |sufficient |compute |)capacity",
      "capacity (temporarily |)(exceeded|exhausted|constraint|limit|is full|available|issues)",
      "high (demand|traffic|load|volume)",
      "too many connections",
      "(engine|server|service|model|system|upstream) (is |)(currently |temporarily |too |)(busy|saturated)",
      "(server|service|we are|we're) (is |)busy",
      "no (healthy|available|free|idle) (upstream|backend|instances|providers|servers|workers|replicas|slot|slots)",
      "(no auth available|no available account|no available accounts|auth_unavailable)",
      "no (slot|slots|workers|instances|replicas|servers) (are |is |currently |)available",
      "(slot|slots|worker|workers|instances|replicas|backends) (is |are |)(currently |temporarily |)(unavailable|busy)",
      "worker*…request limit reached",
      "model…(is|currently|still) loading",
      "scaling up",
      "maximum pending requests exceeded",
      "queue…full",
      "service (is |)(temporarily |currently |)unavailable",
      "temporarily (unavailable|not available|offline|out of service|down)",
      "(unavailable|not available|maintenance)…(try again|retry|come back|check back|again) (later|shortly|soon|in|after)",
      "upstream connect error",
      "no deployments available",
      "no more (data centers|datacenters|servers|workers|instances|capacity)",
      "queue position",
      "degraded (function|model|endpoint|deployment|instance) (cannot|can't|could not|is|was|has|will)",
      "(function|model|endpoint|deployment|service) is (currently |temporarily |)degraded",
      "(request|job|call) (was |)dropped after…queue",
      "not enough resources"
    ],
    unless: [
      "(gpu|vram|memory)…(out of|capacity|not enough)",
      "context",
      "tokens",
      "(in|for|to|on|with) (your |this |the |)(country|region|location|account|plan|key|project|organization|tier|subscription)",
      "(activate|subscribe|enable|closed or|only allows)"
    ],
    reason: overloaded
  })
]

/** Rules for limits without a unit of time, money or capacity. */
export const rates: ReadonlyArray<Rule.Rule> = [
  Rule.text({
    id: "limit/rate",
    why: "A rate limit without numbers.",
    phrases: [
      "(rate limit|rate limits|rate limited|rate limiting|rate exceeded|rate-limit|rate-limits|rate-limited|rate-limiting|rate_limit|rate_limits|rate_limited)",
      "(ratelimit|ratelimits|ratelimited|ratelimiterror|ratelimitexceeded|ratelimitreached)",
      "too many (current |concurrent |simultaneous |active |parallel |)(requests|tokens|calls|messages)",
      "too many concurrent",
      "(usage|message|request|quota|resource) (limit|cap|quota) (reached|exceeded|hit)",
      "(reached|hit|exceeded) (your|the|its) (usage|message|request|rate|quota|limit|session|token)…(limit|quota|cap)",
      "(limit|quota|usage) (will |)(be |)(reset|resets|resetting|replenished)",
      "quota (exceeded|exhausted|limit|reached|is exhausted|has been exceeded)",
      "(exceeded|exhausted|used up)…(quota|allowance|allocation)",
      "(free|your|plan|monthly|weekly|daily) usage exceeded",
      "out of (extra |)usage",
      "(reached|hit|exceeded) (your|the|its) (usage |)(limit|limits)",
      "limit…resets",
      "resource (has been |)exhausted",
      "(slow down|request rate increased too quickly)",
      "concurren* (limit|request|requests)…(exceed|exceeded|reached|limit|many)",
      "limiting requests",
      "(cooling down|cooldown|model_cooldown)"
    ],
    reason: rateLimit
  })
]
