"""The batch job that this process belongs to, for those who look for its runs later."""

from __future__ import annotations

import os

from ...store.run_fields import SchedulerFields

# Key of run.json → variable.
_SLURM = {
    "job_id": "SLURM_JOB_ID",
    "job_name": "SLURM_JOB_NAME",
    "account": "SLURM_JOB_ACCOUNT",
    "partition": "SLURM_JOB_PARTITION",
    "user": "SLURM_JOB_USER",
    "array_job_id": "SLURM_ARRAY_JOB_ID",
    "array_task_id": "SLURM_ARRAY_TASK_ID",
    "step_id": "SLURM_STEP_ID",
    "restarts": "SLURM_RESTART_COUNT",
}
_PBS = {
    "job_id": "PBS_JOBID",
    "job_name": "PBS_JOBNAME",
    "account": "PBS_ACCOUNT",
    "partition": "PBS_QUEUE",
    "user": "PBS_O_LOGNAME",
}
_LSF = {
    "job_id": "LSB_JOBID",
    "job_name": "LSB_JOBNAME",
    "account": "LSB_PROJECT_NAME",
    "partition": "LSB_QUEUE",
    "array_task_id": "LSB_JOBINDEX",
}
_SCHEDULERS = {"slurm": _SLURM, "pbs": _PBS, "lsf": _LSF}


def scheduler_fields() -> SchedulerFields | None:
    """The batch job that this process belongs to, for run.json; None outside of one."""
    for name, variables in _SCHEDULERS.items():
        if not os.environ.get(variables["job_id"]):
            continue
        fields: SchedulerFields = {"scheduler": name}
        for key, variable in variables.items():
            if value := os.environ.get(variable, "")[:200]:
                fields[key] = value  # type: ignore[literal-required]
        return fields
    return None
