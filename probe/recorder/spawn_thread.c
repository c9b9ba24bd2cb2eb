/* Starts a process from a thread of its own, which also reaps it.

posix_spawn returns when the new process has loaded its program. On a busy machine that takes 50 to
250 ms, and CPython's own ways of starting a process hold its lock meanwhile. */

#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES (256 << 10)

typedef struct {
    char **words;     /* of the command, ended by NULL */
    char **variables; /* of its environment, ended by NULL */
    int log;          /* where its output goes */
} Job;

static void forget(Job *job)
{
    if (job->log >= 0)
        close(job->log);
    free(job->words);
    free(job->variables);
    free(job);
}

/* Copies a list of bytes: the pointers, and behind them the strings. */
static char **copied(PyObject *list)
{
    Py_ssize_t count = PyList_GET_SIZE(list);
    size_t bytes = (count + 1) * sizeof(char *);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        if (!PyBytes_Check(item)) {
            PyErr_SetString(PyExc_TypeError, "words and variables must be bytes");
            return NULL;
        }
        bytes += PyBytes_GET_SIZE(item) + 1;
    }
    char **pointers = malloc(bytes);
    if (pointers == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    char *next = (char *) (pointers + count + 1);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyList_GET_ITEM(list, i);
        size_t length = PyBytes_GET_SIZE(item) + 1;
        pointers[i] = memcpy(next, PyBytes_AS_STRING(item), length);
        next += length;
    }
    pointers[count] = NULL;
    return pointers;
}

static int spawned(const Job *job, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGXFSZ);
    int error = posix_spawn_file_actions_init(&files);
    if (error)
        return error;
    error = posix_spawnattr_init(&how);
    if (!error) {
        posix_spawnattr_setflags(
            &how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        posix_spawnattr_setsigmask(&how, &none);
        posix_spawnattr_setsigdefault(&how, &usual);
        error = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
        if (!error)
            error = posix_spawn_file_actions_adddup2(&files, job->log, 1);
        if (!error)
            error = posix_spawn_file_actions_adddup2(&files, job->log, 2);
        if (!error)
            error = posix_spawn_file_actions_addclosefrom_np(&files, 3);
        if (!error)
            error = posix_spawn_file_actions_addchdir_np(&files, "/");
        if (!error)
            error = posix_spawnp(pid, job->words[0], &files, &how, job->words, job->variables);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

static void *run(void *argument)
{
    Job *job = argument;
    pid_t pid;
    int error = spawned(job, &pid);
    if (error)
        dprintf(job->log, "cannot start %s: %s\n", job->words[0], strerror(error));
    forget(job);
    while (!error && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return NULL;
}

static PyObject *start(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *words, *variables;
    int log;
    if (!PyArg_ParseTuple(arguments, "O!O!i", &PyList_Type, &words, &PyList_Type, &variables, &log))
        return NULL;
    Job *job = calloc(1, sizeof(Job));
    if (job == NULL)
        return PyErr_NoMemory();
    job->log = fcntl(log, F_DUPFD_CLOEXEC, 3);
    int failed = job->log < 0 ? errno : 0;
    if (failed || (job->words = copied(words)) == NULL
        || (job->variables = copied(variables)) == NULL) {
        forget(job);
        errno = failed;
        return failed ? PyErr_SetFromErrno(PyExc_OSError) : NULL;
    }
    pthread_attr_t how;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&how, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the user's threads */
    failed = pthread_create(&thread, &how, run, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&how);
    if (failed) {
        forget(job);
        errno = failed;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"start", start, METH_VARARGS,
     "start(words, variables, log): run a command in a session of its own, lists of bytes, its\n"
     "output to the descriptor log, all others closed. Returns at once; the process is waited for\n"
     "by a thread. Raises OSError if there can be no thread; what else fails is written to log."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "spawn_thread", NULL, 0, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_spawn_thread(void)
{
    return PyModule_Create(&module);
}
