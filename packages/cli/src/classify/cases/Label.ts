/** The reasons as labels in snake_case, as used in labelled corpora and in the output of `classify`. */
import { FailoverReason } from "@outlast/agent"

export type Label = FailoverReason.ReasonLabel

type Definition = (typeof FailoverReason.definitions)[FailoverReason.ReasonTag]

const byLabel = new Map<string, Definition>(
  Object.values<Definition>(FailoverReason.definitions).map((definition) => [definition.label, definition])
)

/** All labels, in the order of the reasons. */
export const labels: ReadonlyArray<Label> = Array.from(byLabel.values(), ({ label }) => label)

export const isLabel = (value: unknown): value is Label => typeof value === "string" && byLabel.has(value)

export const labelOf = (reason: FailoverReason.FailoverReason): Label =>
  FailoverReason.definitionOf(reason).label

/** The reasons that a label may stand for. A label does not tell, for example, which side broke the protocol. */
export const reasonsOf = (label: Label): ReadonlyArray<FailoverReason.FailoverReason> => {
  const definition = byLabel.get(label)
  return definition?.labelled ?? definition?.samples ?? []
}

/** The remedies for failures with a label; none if the label is unknown. */
export const remediesOf = (label: Label): Definition["remedies"] => byLabel.get(label)?.remedies ?? []
