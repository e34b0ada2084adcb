/** Errors of requests about tasks. */
import { Schema } from "effect"

/** As many tasks wait as may wait. Nothing was stored. */
export class QueueFull extends Schema.TaggedError<QueueFull>("@outlast/tasks/QueueFull")("QueueFull", {
  queued: Schema.Finite,
  bound: Schema.Finite
}) {
  override get message(): string {
    return `The task was not queued: ${this.queued} tasks wait, and at most ${this.bound} may. Submit it again later, or raise \`queue\`.`
  }
}

/** The key belongs to a task with other parameters. Nothing was stored. */
export class KeyReused extends Schema.TaggedError<KeyReused>("@outlast/tasks/KeyReused")("KeyReused", {
  task: Schema.String,
  key: Schema.String
}) {
  override get message(): string {
    return `The key \`${this.key}\` of \`${this.task}\` belongs to a task with other parameters. Use another key for another task.`
  }
}

export class NoSuchTask extends Schema.TaggedError<NoSuchTask>("@outlast/tasks/NoSuchTask")("NoSuchTask", {
  task: Schema.String
}) {
  override get message(): string {
    return `There is no task \`${this.task}\`. It may have been pruned.`
  }
}

/** The task is in a state in which this cannot be done. Nothing was changed. */
export class NotNow extends Schema.TaggedError<NotNow>("@outlast/tasks/NotNow")("NotNow", {
  task: Schema.String,
  state: Schema.String,
  /** The request that was refused: `resume`. */
  asked: Schema.String
}) {
  override get message(): string {
    const { when, next } = words[this.asked] ?? { when: "another state", next: "" }
    return `\`${this.asked}\` does nothing for task \`${this.task}\`: it is ${this.state}, and ${this.asked} needs ${when}.${next}`
  }
}

/** The decision is about something else than what the task waits for. Nothing was changed. */
export class StaleDecision extends Schema.TaggedError<StaleDecision>("@outlast/tasks/StaleDecision")(
  "StaleDecision",
  {
    task: Schema.String,
    /** The key that the decision names. */
    key: Schema.String,
    /** The key of what the task waits for. */
    waitsFor: Schema.String
  }
) {
  override get message(): string {
    return `The decision about \`${this.key}\` does nothing for task \`${this.task}\`: it waits for a decision about \`${this.waitsFor}\`. Look at that one, then decide with its key.`
  }
}

const words: Readonly<Record<string, { readonly when: string; readonly next: string }>> = {
  resume: { when: "a task that is Failed or Cancelled, with its conversation", next: "" },
  decide: {
    when: "a task that is InDoubt (happened, or did not) or WaitingForApproval (decisions), and not decided yet",
    next: ""
  }
}
