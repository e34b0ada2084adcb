/**
 * Classification of failures: the classifier, its facts and rules, the reasons, and the errors that a program sees.
 */
export * as AnswerFacts from "./facts/AnswerFacts.ts"
export * as CallFailed from "./reasons/CallFailed.ts"
export * as CallFailure from "./reasons/CallFailure.ts"
export * as Classifier from "./Classifier.ts"
export * as ErrorFacts from "./facts/ErrorFacts.ts"
export * as EventFacts from "./facts/EventFacts.ts"
export * as FailoverReason from "./reasons/FailoverReason.ts"
export * as KeyForm from "../secrets/KeyForm.ts"
export * as ProviderFailure from "./reasons/ProviderFailure.ts"
export * as Redaction from "../secrets/Redaction.ts"
export * as Rule from "./rules/Rule.ts"
export * as WaitHint from "./facts/WaitHint.ts"
