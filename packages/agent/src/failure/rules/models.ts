/**
 * Rules on models that are unknown, retired or not enabled for this account, and on keys and accounts.
 */
import * as Rule from "./Rule.ts"
import { auth, modelNotFound, revoked } from "./reasons.ts"

/** Run before the rules on models: a gateway looks for the key of a model, and its sentence names both. */
export const secrets: ReadonlyArray<Rule.Rule> = [
  Rule.text({
    id: "auth/secret",
    why: "A gateway or server lacks its own key for the provider behind it.",
    phrases: [
      "(secret|secrets)…(not found|not exist|doesn't exist|missing|not set|not configured|undefined|unset|no versions)",
      "(no|missing|unknown) (secret|secrets)",
      "(environment variable|env variable|env var)…(not set|missing|unset|undefined|not defined|not found|not configured|empty)",
      "missing (required |)(environment variable|env variable|env var)",
      "(virtual key|provider key|master key)…(not found|not exist|missing|not configured)"
    ],
    reason: auth
  }),
  Rule.rule(
    {
      id: "auth/variable",
      why: "The sentence names the environment variable of a key that the server lacks.",
      reason: auth
    },
    "text",
    ({ text }) => (text.includes("_") ? unset.exec(text)?.[0] : undefined)
  )
]

const unset =
  /\b[a-z0-9_]{2,40}_(?:api_?key|auth_token|access_token|secret(?:_key)?)\b["'`]?(?: (?:environment |env )?(?:variable|var))? (?:is |was )?(?:not (?:set|defined|configured|found)|unset|undefined|missing|empty)\b|\bkeyerror: ["'][a-z0-9_]{2,40}_(?:api_?key|token|secret)\b/

export const models: ReadonlyArray<Rule.Rule> = [
  Rule.text({
    id: "model/unknown",
    why: "The sentence names a model, deployment or endpoint that does not exist.",
    phrases: [
      "model…(does not exist|doesn't exist|not exist|not found|is not found|was not found|not available|unavailable in|no longer available|no longer supported|not recognized)",
      "modelcode…does not exist",
      "model…is unknown",
      "(model|models)…(deprecated|decommissioned|retired|end of life|sunset|discontinued|shut down|been removed|deactivated)",
      "model…is not supported (by|in|on|for|with|when)",
      "(unknown|invalid|unsupported|unavailable|unrecognized|nonexistent|no such|missing|not a valid|non-existent) (model|deployment|inference profile|endpoint)( id| name| identifier|)",
      "model (id|name|identifier|)( |)…(is invalid|is not valid|not valid)",
      "(no|not) (endpoints|endpoint|provider|providers|deployment|channel|channels) (found|available)",
      "no (allowed|available|valid) (providers|channel|channels|model|models)",
      "deployment…(does not exist|not found|doesn't exist)",
      "not found for api version",
      "(try|need to|must) (pull|pulling) (it|the model)",
      "(does not|doesn't) work with the specified model",
      "not servable",
      "specified version does not exist",
      "not a chat model",
      "model…end of its life",
      "unable to access (non-serverless |)model",
      "no healthy deployments",
      "not found the model",
      "model is not supported",
      "model…not (been |)(loaded|deployed|enabled|installed|downloaded|served)",
      "no models loaded",
      "legacy…model",
      "provided model identifier",
      "(could not find|couldn't find|cannot find|can't find|failed to find|unable to find) (the |)model",
      "llm provider not provided",
      "(unknown|no|unsupported) provider for (the |this |)model",
      "(could not|cannot|unable to|failed to) (auto |)(resolve|determine|infer|map|route to|route) (a |an |the |any |)(provider|model|deployment|channel)",
      "(could not route to|no route for) ",
      "on-demand throughput",
      "model (is |was |has been |)(unloaded|disabled)",
      "endpoint…(is not running|not running|is stopped|is paused|scaled to zero|currently closed|is closed)"
    ],
    unless: [
      "(process|runner|server) (has |)(terminated|crashed|exited|died|failed to start)",
      "failed to start",
      "not valid json",
      "(tool|function|item|file|image|role|parameter|field|property) …not found",
      "(tool|function|item|file|parameter|field|property) * (does not exist|doesn't exist|not exist|is not available)",
      "(invalid|missing|unexpected|unknown|unsupported) model (output|response|answer|reply|completion|result|state|error|input|parameter|parameters|setting|settings|argument|arguments|option|options|type|format|architecture)",
      "too (long|large)",
      "tool_use",
      "overloaded",
      "prefill"
    ],
    reason: modelNotFound
  }),
  Rule.text({
    id: "model/load",
    why: "A local server cannot load the requested model. With a 5xx the server itself failed.",
    phrases: ["(failed|unable|could not|cannot) (to |)load (the |)model"],
    unless: ["(error loading model|rpc error)"],
    when: ({ said, status }) => (said ?? status ?? 0) < 500,
    reason: modelNotFound
  }),
  Rule.text({
    id: "model/manifest",
    why: "Ollama's registry or model folder has no model of this name.",
    phrases: ["manifest: file does not exist"],
    reason: modelNotFound
  }),
  Rule.text({
    id: "model/no-access",
    why: "The account is fine, but may not use this one model.",
    phrases: [
      "(not have|no|without|lacks|have|denied|request|not allowed|not authorized|not permitted|need|requires|gain) (access to|to access|access for|to use|permission to access) (the |this |that |requested |specified |any |)model*",
      "access (to|for) (the |this |)(requested |specified |)model",
      "(not|not been) (allowed|authorized|permitted|entitled|granted|enabled|eligible)…(model|models)",
      "(verified|verify)…(use|using|access) the model",
      "model access (is |)(denied|not|required)",
      "model…(not available|not enabled|not allowed|not accessible|not included)…(plan|account|organization|subscription|tier|team|region|key|user|country)",
      "use case details have not been submitted",
      "use(-| )case form",
      "(not agreed|not accepted|must agree|must accept|need to agree|have to agree|need to accept|agree to|accept) …(terms|license|licence|agreement|conditions)",
      "gated (repo|model|repository)",
      "not in the authorized list",
      "(activate|enable|subscribe to|subscribed to|opt in to|opted in to) the (corresponding |specified |requested |)model",
      "subscription for (the|this) model",
      "this model requires a"
    ],
    unless: ["not authorized to perform: "],
    reason: modelNotFound
  })
]

export const shutDown: ReadonlyArray<Rule.Rule> = [
  Rule.text({
    id: "auth/shut-down",
    why: "The account, organisation or key was disabled or revoked: a person has to act.",
    phrases: [
      "(organization|organisation|account|key|token|user|workspace|project|subscription)…(has been|is|was|been|been permanently) (disabled|deactivated|suspended|banned|revoked|blocked|terminated|closed|locked|on hold|deleted)",
      "(disabled|suspended|deactivated|banned|revoked) (organization|account|key|token|user|api key)",
      "(organization|admin)…has disabled",
      "reported as leaked",
      "token (has been |was |)revoked"
    ],
    unless: ["tool", "schema", "model…(disabled|retired|deprecated)", "billing*"],
    // Without a status, "account was closed" may be about anything.
    when: ({ status, text }) =>
      status !== undefined || /\b(?:your|this|the) |api|consumer|organi[sz]ation|token/.test(text),
    reason: revoked
  })
]

/** Run after the rules on content filters, whose messages also mention keys and teams. */
export const keys: ReadonlyArray<Rule.Rule> = [
  Rule.text({
    id: "auth/key",
    why: "The error calls the key or token invalid, missing or expired.",
    phrases: [
      "lacks the required",
      "(invalid|incorrect|wrong|missing|expired|bad|malformed|no|unauthorized|unknown|unrecognized) (or missing |or expired |x-api-key |or invalid |anthropic |openai |google |azure |gemini |proxy |virtual |bearer |authentication |auth |oauth |access |security |provided |)(api key|api-key|apikey|api_key|api token|x-api-key|token|key|credential|credentials|bearer|authentication|authorization|auth|subscription key|signature version)",
      "(api key|api-key|apikey|api_key|x-api-key|credentials|credential|access token|oauth token|bearer token|security token|jwt|auth token|authentication token|refresh token|session)…(invalid|not valid|is not valid|expired|incorrect|missing|not found|is required|required|not provided|unauthorized|not authorized|wrong|not set|rejected|malformed|does not exist|is invalid)",
      "(provide|pass|set|supply|need|needs|require|requires|use)…(api key|api-key|x-api-key|valid token|credentials|authorization header)",
      "(could not|failed to|unable to|cannot|can't|not) (be |)(authenticate|authenticated|authorize|resolve authentication*|load credentials|load the default credentials)",
      "(authentication|authorization|authorisation|oauth|login|token verification) (failed|failure|error|required|fails|has expired|is required|expired|header)",
      "(not logged in|/login|log in again|re-authenticate|reauthenticate|reauthentication|login required)",
      "user not found",
      "verify your (account|identity|email|phone)",
      "(token|session) (is |has |was |)(expired|not set)",
      "(only allows|only accepts|only permits|only be used)…(client|clients|from|within|members)",
      "unauthorized",
      "access denied",
      "(not authorized|not permitted|not allowed|unauthorized) (to|for) (perform|access|use|call|invoke|sign|make|this)",
      "(does not|do not|doesn't|don't|no|lack|lacks|insufficient|missing|without|denied|not have|sufficient|must have|need|needs|requires)…permission*",
      "(is|are) only authorized for",
      "must be a member of",
      "(organization|organisation|org) policy constraint",
      "(country|region|territory|location)…not supported",
      "not available in your (country|region|location)",
      "(credentials|credential) (refresh failed|provider failed|chain|could not be|were not found|not be found|was not found|unavailable|provider returned)",
      "(defaultazurecredential|chainedtokencredential|managedidentitycredential|environmentcredential|defaultcredentialserror)",
      "forbidden"
    ],
    unless: [
      "unexpected token",
      "(max|maximum|input|output|prompt|special) token*",
      "token count",
      "json",
      "index…key",
      "keyword",
      "(unrecognized|unrecognised|unexpected|unknown|extra|duplicate) (key|keys)",
      "(missing|required|invalid) (key|keys) (\"|'|`|in|at)",
      "(key|token)(\"|'|`|) in (request|object|body|payload|json|grammar|schema)",
      "invalid token (id|ids|in|at|index)"
    ],
    reason: auth
  })
]
