import { describe, it } from "@effect/vitest"
import { assert } from "vitest"
import { FailoverReason } from "@outlast/agent"
import { Vocabulary } from "@outlast/agent/presets"

const auth = (permanent: boolean) => new FailoverReason.Auth({ permanent })
const timeout = (local: boolean) => new FailoverReason.Timeout({ phase: "total", local })
const format = (side: "request" | "response") => new FailoverReason.Format({ side })

/** Reason · CodeBuddy's reason · its recovery · DECISION_037 · s11 · nexo-rs · claw0. */
const rows: ReadonlyArray<
  readonly [
    FailoverReason.FailoverReason,
    Vocabulary.CodebuddyReason,
    Vocabulary.CodebuddyRecovery,
    Vocabulary.Decision037Class,
    Vocabulary.S11Class,
    Vocabulary.NexoClass,
    Vocabulary.Claw0Class
  ]
> = [
  [auth(false), "auth", "permanent", "ProviderError", "unrecoverable", "not_retryable", "auth"],
  [auth(true), "auth", "permanent", "ProviderError", "unrecoverable", "not_retryable", "auth"],
  [
    new FailoverReason.Billing(),
    "billing",
    "permanent",
    "ProviderRateLimit",
    "unrecoverable",
    "not_retryable",
    "billing"
  ],
  [
    new FailoverReason.RateLimit(),
    "rate_limit",
    "transient",
    "ProviderRateLimit",
    "rate_limit",
    "retryable",
    "rate_limit"
  ],
  [
    new FailoverReason.Overloaded(),
    "overloaded",
    "transient",
    "NetworkTransient",
    "overloaded",
    "retryable",
    "unknown"
  ],
  [
    new FailoverReason.ServerError(),
    "unknown",
    "transient",
    "ProviderError",
    "unrecoverable",
    "retryable",
    "unknown"
  ],
  [timeout(false), "timeout", "transient", "NetworkTransient", "unrecoverable", "retryable", "timeout"],
  [timeout(true), "timeout", "transient", "NetworkTransient", "unrecoverable", "retryable", "timeout"],
  [
    new FailoverReason.Network(),
    "overloaded",
    "transient",
    "NetworkTransient",
    "unrecoverable",
    "retryable",
    "unknown"
  ],
  [
    new FailoverReason.PermanentNetwork(),
    "unknown",
    "permanent",
    "NetworkPermanent",
    "unrecoverable",
    "not_retryable",
    "unknown"
  ],
  [
    new FailoverReason.ContextOverflow({}),
    "unknown",
    "permanent",
    "ContextLength",
    "prompt_too_long",
    "not_retryable",
    "overflow"
  ],
  [
    new FailoverReason.ModelNotFound(),
    "model_not_found",
    "permanent",
    "ProviderError",
    "unrecoverable",
    "not_retryable",
    "unknown"
  ],
  [format("request"), "format", "permanent", "ProviderError", "unrecoverable", "not_retryable", "unknown"],
  [format("response"), "format", "permanent", "LogicError", "unrecoverable", "not_retryable", "unknown"],
  [
    new FailoverReason.ContentPolicy(),
    "unknown",
    "permanent",
    "LogicError",
    "unrecoverable",
    "not_retryable",
    "unknown"
  ],
  [
    new FailoverReason.Cancelled(),
    "unknown",
    "permanent",
    "LogicError",
    "unrecoverable",
    "not_retryable",
    "unknown"
  ],
  [
    new FailoverReason.Unknown(),
    "unknown",
    "permanent",
    "LogicError",
    "unrecoverable",
    "not_retryable",
    "unknown"
  ]
]

describe("Vocabulary", () => {
  for (const [reason, codebuddy, recovery, decision037, s11, nexo, claw0] of rows) {
    it(`maps ${reason._tag} to the classes of five systems`, () => {
      assert.deepStrictEqual(
        {
          codebuddy: Vocabulary.codebuddy(reason),
          recovery: Vocabulary.codebuddyRecovery(reason),
          decision037: Vocabulary.decision037(reason),
          s11: Vocabulary.s11(reason),
          nexo: Vocabulary.nexo(reason),
          claw0: Vocabulary.claw0(reason)
        },
        { codebuddy, recovery, decision037, s11, nexo, claw0 }
      )
    })

    it(`never retries ${reason._tag} from the safety guard`, () => {
      assert.strictEqual(Vocabulary.codebuddyRecovery(reason, { fromSafetyGuard: true }), "permanent")
    })
  }

  it("covers every reason", () => {
    assert.deepStrictEqual(
      new Set(rows.map(([reason]) => reason._tag)),
      new Set<string>(FailoverReason.reasonTags)
    )
  })
})
