// The groups of a round as a list: who with whom, and which of them failed.
import type { Agent, Round } from './api';
import { groupsOf, inNoGroup } from './groups';
import { Digest, State } from './parts';
import { agentName } from './status';

export function GroupList({ round, agents }: { round: Round; agents: Agent[] }) {
  const name = (agent: string | null) => agentName(agent, agents);
  const outside = inNoGroup(round);
  return (
    <ul class="plain groups" aria-label={`Groups of round ${round.round}`}>
      {groupsOf(round).map((group) => (
        <li key={group.index}>
          <b>Group {group.index}</b> <span>{group.members.map((one) => name(one.agent)).join(', ')}</span>{' '}
          <State tone={group.tone} text={group.text} />
          {group.digest !== null && <> <Digest of={group.digest} /></>}
        </li>
      ))}
      {outside.length > 0 && (
        <li>
          <b>In no group</b> {outside.map((one) => `${name(one.agent)} (${one.state})`).join(', ')}
        </li>
      )}
    </ul>
  );
}
