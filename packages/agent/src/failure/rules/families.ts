/**
 * Rules on single words, for sentences that match no earlier rule and have no status. A word shows the subject of a
 * sentence only. The narrower subjects come first.
 */
import type { ErrorFacts } from "../facts/ErrorFacts.ts"
import * as Rule from "./Rule.ts"
import {
  auth,
  badRequest,
  badResponse,
  billing,
  contentPolicy,
  modelNotFound,
  network,
  overloaded,
  permanentNetwork,
  rateLimit,
  serverError
} from "./reasons.ts"

/** Errors of a local program or of the operating system. Their text may name anything. */
export const local =
  /\b(?:eacces|eperm|enoent|errno|typeerror|referenceerror|attributeerror|keyerror|indexerror)\b|is not a function|no such file|cannot read propert/

/** Words of a text about a provider. Errors of the user's own program may use any other word. */
const ofProvider =
  /\b(?:api|llm|models?|provider|upstream|requests?|response|server|endpoint|https?|url|tokens?|account|agent|client|chat|completions?|prompts?|stream|gateway|temperature|messages?|tools?|functions?|schema|parameters?)\b/

const among =
  (statuses: ReadonlyArray<number | undefined>) =>
  ({ said, status, text }: ErrorFacts): boolean =>
    statuses.includes(said ?? status) && !local.test(text)

const bare = among([undefined])

/** Condition for words that any program uses: the error must come from a provider or mention one. */
const unexplained = (facts: ErrorFacts, provider: string): boolean =>
  bare(facts) && (provider !== "" || ofProvider.test(facts.text))
const blamed = among([undefined, 400])
const vague = among([undefined, 400, 500])

const family = (
  id: string,
  why: string,
  phrases: ReadonlyArray<string>,
  reason: Rule.Common["reason"],
  when: Rule.Common["when"],
  unless?: ReadonlyArray<string>
): Rule.Rule => Rule.text({ id: `family/${id}`, why, phrases, reason, when, unless })

export const families: ReadonlyArray<Rule.Rule> = [
  family(
    "content",
    "The sentence is about content that filters look for.",
    ["(nsfw|unsafe|inappropriate|harmful|prohibited|disallowed|moderation|jailbreak*|copyright*)"],
    contentPolicy,
    vague
  ),
  family(
    "tls",
    "The sentence is about the encryption of the connection.",
    ["(ssl|tls|certificate|certificates|x509|decrypterror)"],
    permanentNetwork,
    vague
  ),
  family(
    "money",
    "The sentence is about money.",
    [
      "(credit|credits|balance|billing|budget|payment|wallet|paid|subscription|subscribe|top-up|topup|unpaid|funds)",
      "(upgrade|higher|paid|current|free) …(plan|tier)",
      "(средств|баланс|оплат|잔액|크레딧|결제|saldo|crédit*|残高|guthaben|solde)"
    ],
    billing,
    vague,
    ["(thinking|token|tokens|reasoning) budget", "budget tokens"]
  ),
  family(
    "quota",
    "The sentence is about a usage limit.",
    [
      "(quota|quotas|throttl*|usage limit|usage limits|allowance|daily limit|monthly limit|weekly limit|too many)",
      "(лимит|квот|한도|할당량|límite|limite|cuota|kontingent|上限|制限|vượt quá)"
    ],
    rateLimit,
    vague,
    ["(images|files|documents|pages|videos)…per (request|prompt|message|conversation)"]
  ),
  family(
    "access",
    "The sentence is about the caller's identity or permissions.",
    [
      "(credential|credentials|permission|permissions|unauthenticated|login|log in|logged in|illegal access|no auth|sign in|signed in|oauth|authenticate|authenticated|authentication|authorization|authorized|authorised|api key|apikey|api_key|access token)",
      "(token|key|account|session|license|licence|user|organization|workspace)…(expired|revoked|denied|not set|not configured|missing|restricted|inactive|suspended|disabled|blocked|banned|not eligible|only allows)",
      "(ключ|доступ|토큰|인증|권한|inválid*|invalide|clave|chave|schlüssel|許可|権限|認証|キー)"
    ],
    auth,
    vague
  ),
  family(
    "model",
    "The sentence is about an unavailable model.",
    [
      "(model|deployment)…(not|no|cannot|can't|unknown|unsupported|unavailable|missing|invalid|doesn't|isn't)",
      "(no|unknown|unsupported|unavailable|missing|invalid) …(model|models|deployment|deployments)"
    ],
    modelNotFound,
    blamed,
    [
      "(response|output|answer|tool|format|parameter|parameters|name is required|memory|language model)",
      "(vision|image|images|multimodal|audio|video|pdf)",
      // A model that refuses something exists.
      "(not|doesn't|didn't|cannot|can't|couldn't|isn't able to|unable to) (support|accept|allow|process|handle|follow|use|take|read)"
    ]
  ),
  family(
    "capacity",
    "The sentence is about a busy server.",
    [
      "(capacity|busy|overload|saturated|unavailable|maintenance|offline|down|not ready|warming up|starting up|queue|queued|bad gateway)"
    ],
    overloaded,
    vague
  ),
  family(
    "connection",
    "The sentence is about the connection to the server.",
    [
      "(connect|connected|connecting|connection|disconnect|disconnected|network|socket|dns|proxy|tunnel|unreachable|hostname|url or port|upstream request)"
    ],
    network,
    unexplained
  ),
  family(
    "response",
    "The sentence is about an unusable answer.",
    [
      "(response|answer|result|output|reply|stream|chunk|completion|choices)…(null|none|invalid|empty|missing|no |not |unexpected|malformed|incomplete|unknown|validation|syntax error)",
      "(null|none|invalid|empty|missing|no|not|unexpected|malformed|incomplete|unknown) (response|answer|output|reply|stream|chunk|completion|choices)"
    ],
    badResponse,
    unexplained
  ),
  family(
    "request",
    "The sentence is about the content of a request.",
    [
      "(must|required|requires|require|mandatory|invalid|missing|unsupported|unexpected|unrecognized|malformed|not supported|not allowed|not permitted|cannot contain|illegal|bad request|unprocessable)",
      "(rejected|refused|reject|refuse)…(request|schema|payload|parameter|parameters|message|messages|tool)"
    ],
    badRequest,
    unexplained
  ),
  family(
    "server",
    "The sentence is about a temporary problem, or the inside of a server.",
    ["(transient|internal|server-side|crash|crashed|backend error|system error|system is abnormal)"],
    serverError,
    unexplained
  )
]
